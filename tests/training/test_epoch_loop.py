"""The project's training step against Lightning's own, and where it hands over to it."""

import pytest
import torch
from crash.results import difference
from pytorch_lightning import Callback
from recorded import curve

from normexp.training.epoch_loop import PlainEpochLoop
from normexp.training.lit_model import LitModel

HOOKS = [
    "on_train_epoch_start", "on_train_batch_start", "on_before_zero_grad", "on_before_backward", "on_after_backward",
    "on_before_optimizer_step", "on_train_batch_end", "on_validation_start", "on_validation_end",
    "on_train_epoch_end",
]  # fmt: skip


class Order(Callback):
    """Writes down each hook, with what is countable when it is called."""

    def __init__(self):
        self.seen = []

    def setup(self, trainer, module, stage):
        module.seen = self.seen


def note(hook):
    def method(self, trainer, module, *arguments):
        gradients = sum(p.grad is not None for p in module.parameters())
        progress = trainer.fit_loop.epoch_loop.batch_progress.current
        counted = [number for number in arguments if isinstance(number, int)]
        self.seen.append(
            (hook, counted, trainer.global_step, trainer.is_last_batch, gradients, repr(progress))
        )

    return method


for name in HOOKS:
    setattr(Order, name, note(name))


def of_module(hook):
    return lambda module, *arguments: module.seen.append((hook, len(arguments)))


def outcome(train, options, outputs):
    order = Order()
    summary, folder = train(*options, f"outputs={outputs}", callbacks=[order])
    saved = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    return order.seen, saved, curve(folder), summary["metrics"]


@pytest.mark.integration
@pytest.mark.parametrize(
    "options",
    [
        ["norm=batchnorm", "data.augment=true"],
        ["norm=none", "model=transformer", "model.dropout=0.2", "optimizer=adamw"],
        ["trainer=float64", "trainer.gradient_clip_val=0.1", "schedule=constant"],
        ["trainer.precision=bf16-mixed", "max_steps=25", "val_every_n_steps=7"],
    ],
    ids=lambda options: options[0],
)
def test_loop_equals_lightnings_bit_for_bit(train, tmp_path, monkeypatch, options):
    for name in HOOKS:
        monkeypatch.setattr(LitModel, name, of_module(name))
    hooks, saved, rows, metrics = outcome(train, options, tmp_path / "plain")
    monkeypatch.setattr(PlainEpochLoop, "fits", lambda trainer: False)
    expected_hooks, expected, *others = outcome(train, options, tmp_path / "lightning")
    assert hooks == expected_hooks
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "loops"):
        assert difference(saved[part], expected[part], part) is None
    assert [rows, metrics] == others
