"""What a configured trainer must not say is one line, before anything is trained."""

import pytest
from refusals import refused


@pytest.mark.integration
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("trainer.gradient_clip_val=0", "must be above 0; use trainer.gradient_clip_val=null"),
        ("trainer.gradient_clip_val=-1", "must be above 0; use trainer.gradient_clip_val=null"),
        ("trainer.accumulate_grad_batches=0", "too small; use 1 or more"),
        ("+trainer.max_epochs=3", "is given by normexp; write max_epochs=VALUE instead"),
        ("+trainer.check_val_every_n_epoch=3", "is given by normexp; write val_every_n_steps=VALUE instead"),
        ("+trainer.limit_train_batches=3", "is given by normexp; write data.train_size=VALUE instead"),
        ("+trainer.limit_val_batches=1", "is given by normexp; leave it out"),
        ("+trainer.callbacks=[]", "is given by normexp; write monitor=VALUE instead"),
        ("+trainer.num_sanity_val_steps=2", "is given by normexp; leave it out"),
    ],
)
def test_option_is_refused(make_parts, option, message):
    with refused(message) as error:
        make_parts(option)
    assert str(error.value).startswith(option.lstrip("+"))
