"""What a run measures of a user's network, its losses in bfloat16, and the batches of a step."""

import pandas as pd
import pytest

from normexp.config.folder import allow_from
from normexp.config.run_spec import specs
from normexp.runs import load_test_examples
from normexp.training.build import build
from normexp.training.train import launch

SMALL = [
    "model=module", "norm=original", "trainer=float64", "max_epochs=2", "data.train_size=160",
    "batch_size=32", "logger=csv",
]  # fmt: skip


def parts_of(name: str, *overrides: str):
    allow_from(["allow_targets=[own_nets]"])
    (spec,) = specs([*SMALL, f"model.path=own_nets.{name}", *overrides])
    return build(spec)


def test_functions_that_a_network_calls_are_measured_from_the_first_step(tmp_path, recwarn):
    """The loop looks the training step up anew, for a monitor puts one that listens around it."""
    options = ["monitor=[activations]", "monitor.activations.every_n_steps=2", f"outputs={tmp_path}"]
    parts = parts_of("Plain", *options, "max_epochs=1")
    launch(parts)
    assert not [one for one in recwarn if "recorded nothing" in str(one.message)]
    table = pd.read_csv(parts.spec.folder / "metrics.csv")
    steps = table[table["metric"] == "preactivation_std/layer01_norm_relu"]["step"]
    assert steps.tolist() == [0, 2, 4, 5]


def test_losses_of_a_network_in_bfloat16_are_means_of_its_examples(tmp_path):
    parts = parts_of("Plain", "trainer=cpu", "trainer.precision=bf16-true", f"outputs={tmp_path}")
    summary = launch(parts)
    examples = load_test_examples(parts.spec.folder)
    assert summary["metrics"]["test/loss"] == pytest.approx(float(examples.loss.mean(dtype=float)), rel=1e-6)


def test_the_batch_that_is_trained_is_rehearsed_under_accumulation():
    """batch_size is that of each batch, of which a step takes several. BatchNorm refuses batches of one."""
    small = ["batch_size=2", "trainer.accumulate_grad_batches=2", "data.train_size=160", "max_epochs=2"]
    parts = build(*specs(["model=mlp", "norm=batchnorm", *small]))
    assert parts.data.train_dataloader().order.batch_size == 2
    assert parts.module.total_steps == 2 * 80 / 2
