"""Under mixed precision the passes of monitors compute what training computes, and statistics of them stay exact."""

import pandas as pd
import pytest
from small_module import Small, batches, fit

from normexp.monitors import BatchStatistics


def test_a_measured_loss_is_that_of_training_and_not_that_of_float32():
    module, loader = Small(dropout=0), batches(1)
    x, y = loader.dataset.tensors
    plain = module.loss((x, y)).item()
    module = Small(dropout=0)
    monitor = BatchStatistics(every_n_steps=1, batch_size=16)
    lines = fit(module, [monitor], steps=1, loader=loader, precision="bf16-mixed")
    assert lines.values[0, "loss_train_batch/network"] == module.losses[0]
    assert plain != module.losses[0] == pytest.approx(plain, rel=0.02)


def test_a_run_of_no_steps_measures_what_a_run_measures_before_its_first(train):
    """Passes run under autocast there too, and what is fitted to their results does not."""
    options = ["trainer=cpu", "trainer.precision=bf16-mixed", "monitor=[gradients,hessian]", "norm=layernorm"]
    _, at_rest = train(*options, "max_steps=0")
    _, in_training = train(*options, "max_steps=1", "batch_size=64")
    measured = [
        pd.read_csv(folder / "metrics.csv").query("step == 0").set_index("metric")["value"]
        for folder in (at_rest, in_training)
    ]
    tags = measured[0].filter(regex="^(gradient_growth_rate|gradient_norm/network|hessian)").index
    assert len(tags) == 4
    assert measured[0][tags].to_dict() == measured[1][tags].to_dict()
