"""What makes the host wait for the device in a training step is found, and named by its line."""

import io
import traceback
from collections import Counter
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from rich.console import Console
from torch.utils._python_dispatch import TorchDispatchMode

import normexp
from normexp.norms import LayerNorm
from normexp.training.train import PreparedRun

PACKAGE = f"{Path(normexp.__file__).parent}/"  # a checkout may have the same name
aten = torch.ops.aten
# item(), int(), bool(); the places of a mask.
WAITING = {aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default}
BY_INDEX = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default}
FIRST, LAST = 3, 9  # steps that are counted: what is done once is done, and nothing is logged or validated


def is_mask(index: torch.Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


class Waits(TorchDispatchMode):
    """Counts the operations that would wait for a GPU, by the line of the project that asks for them."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function in WAITING or (function in BY_INDEX and any(map(is_mask, arguments[1]))):
            *_, frame = (frame for frame in traceback.extract_stack() if frame.filename.startswith(PACKAGE))
            self.lines[f"{frame.filename.removeprefix(PACKAGE)}:{frame.lineno}"] += 1
        return function(*arguments, **(options or {}))


class CountedSteps(pl.Callback):
    """Counts from the end of one step to the end of a later one, so with the loading of batches."""

    def __init__(self) -> None:
        self.waits = Waits()

    def on_train_batch_end(self, trainer, *_) -> None:
        if trainer.global_step == FIRST:
            self.waits.__enter__()
        elif trainer.global_step == LAST:
            self.waits.__exit__(None, None, None)


@pytest.fixture
def waits(make_parts, tmp_path):
    """Line -> number of times per step."""

    def run() -> dict[str, float]:
        words = ["norm=layernorm", "recipe=plain", "log_every_n_steps=1000", "val_every_n_steps=1000"]
        parts, counted = make_parts(*words, f"max_steps={LAST + 1}"), CountedSteps()
        parts.monitors.append(counted)
        PreparedRun(parts, tmp_path, Console(file=io.StringIO())).fit()
        return {line: count / (LAST - FIRST) for line, count in counted.waits.lines.items()}

    return run


def test_a_step_between_two_events_waits_for_nothing(waits):
    assert waits() == {}


@pytest.mark.parametrize("wait", [lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: bool(x.any())])
def test_what_waits_is_counted_once_a_step_and_layer(monkeypatch, waits, wait):
    forward = LayerNorm.normalize

    def waiting(self, x: torch.Tensor):
        wait(x)
        return forward(self, x)

    monkeypatch.setattr(LayerNorm, "normalize", waiting)
    (line,), (count,) = zip(*waits().items(), strict=True)
    assert line.startswith("norms/")
    assert count == 1
