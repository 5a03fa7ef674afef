"""Sizes and options of a trainer that cannot be meant are refused in one line, before anything is taken or trained."""

import tracemalloc

import pytest
from refusals import refused

from normexp.config.run_spec import specs
from normexp.training.build import build


@pytest.mark.integration
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.depth=1000000"], "depth=1000000: would take minutes to build; choose at most 20000"),
        (["model=cnn", "model.depth=[1,1,1000000]"], "depth=1000002: would take minutes"),
        (["model=resnet", "model.depth=6000002"], "depth=6000002: would take minutes"),
        (["model=transformer", "model.depth=1000000"], "depth=1000000: would take minutes"),
        (["batch_size=1000000000000"], "batch_size=1000000000000: the training split has 1,149 samples"),
        (["threads=10000"], "threads=10000: must be at most 1024"),
        (["max_steps=10000000000000"], "max_steps=10000000000000: must be at most 1000000000000"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_size_is_refused_with_what_it_would_take(overrides, message):
    tracemalloc.start()
    with refused(message):
        build(*specs(["trainer=cpu", "monitor=none", *overrides]))
    assert tracemalloc.get_traced_memory()[1] < 2**27
    tracemalloc.stop()


WITHOUT_OPTIONS = ["optimizer=sgd", "~optimizer.momentum", "~optimizer.nesterov", "~optimizer.weight_decay"]


@pytest.mark.integration
@pytest.mark.parametrize(
    "name", ["ASGD", "Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"]
)
def test_optimizer_without_a_fused_kernel_trains(name, train):
    summary, _ = train(*WITHOUT_OPTIONS, f"optimizer._target_=torch.optim.{name}", "lr=0.01", "max_steps=2")
    assert summary["status"] == "completed"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("trainer.gradient_clip_val=-1", "must be above 0; use trainer.gradient_clip_val=null"),
        ("trainer.accumulate_grad_batches=0", "too small; use 1 or more"),
        ("+trainer.max_epochs=3", "is given by normexp; write max_epochs=VALUE instead"),
        ("+trainer.check_val_every_n_epoch=3", "is given by normexp; write val_every_n_steps=VALUE instead"),
        ("+trainer.limit_train_batches=3", "is given by normexp; write data.train_size=VALUE instead"),
        ("+trainer.limit_val_batches=1", "is given by normexp; leave it out"),
        ("+trainer.callbacks=[]", "is given by normexp; write monitor=VALUE instead"),
    ],
)
def test_option_of_a_trainer_is_refused(make_parts, option, message):
    with refused(message) as error:
        make_parts(option)
    assert str(error.value).startswith(option.lstrip("+"))


def test_a_batch_that_devices_cannot_share_is_refused(make_parts):
    with refused("batch_size=57: cannot be shared equally by 2 devices; choose a multiple of 2"):
        make_parts("batch_size=57", "trainer.devices=2").make_trainer()
    assert make_parts("batch_size=56", "trainer.devices=2").make_trainer().world_size == 2
