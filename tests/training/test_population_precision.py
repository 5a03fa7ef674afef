"""Population statistics are recomputed in the precision of the run."""

import math

import pytest
import torch
from test_one_run import weights


@pytest.mark.integration
@pytest.mark.parametrize("precision", ["64-true", "bf16-true", "bf16-mixed"])
def test_precise_batchnorm_runs_in_every_precision(train, precision):
    summary, folder = train("norm=batchnorm_precise", f"trainer.precision={precision}", "max_steps=4")
    assert math.isfinite(summary["metrics"]["val/loss"])
    state = weights(folder)
    running = [value for key, value in state.items() if key.endswith("running_var")]
    wanted = {"64-true": torch.float64, "bf16-true": torch.bfloat16, "bf16-mixed": torch.float32}[precision]
    assert running
    assert all(value.dtype == wanted and bool((value > 0).all()) for value in running)
