"""Where training steps make the host wait for the device."""

import contextlib
import io
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path

import pytorch_lightning as pl
import torch
from rich.console import Console
from torch.utils._python_dispatch import TorchDispatchMode

import normexp
from normexp.config.run_spec import specs
from normexp.training.build import build
from normexp.training.train import PreparedRun

PACKAGE = f"{Path(normexp.__file__).parent}/"  # a checkout may have the same name
# item(), int(), bool(); the places of a mask.
WAITING = {
    torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default, torch.ops.aten.masked_select.default,
}  # fmt: skip
BY_INDEX = {
    torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default,
}  # fmt: skip
FIRST, LAST = 3, 9  # steps that are counted: what is done once is done, and nothing is logged or validated


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


def is_mask(index: torch.Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


class CountedSteps(pl.Callback):
    """Counts from the end of one step to the end of a later one, so with the loading of batches. On a GPU torch itself
    reports every synchronization."""

    def __init__(self) -> None:
        self.waits, self.told = Waits(), warnings.catch_warnings(record=True)

    def on_train_batch_end(self, trainer, module, *_) -> None:
        on_gpu = module.device.type == "cuda"
        if trainer.global_step == FIRST:
            if on_gpu:
                self.warned = self.told.__enter__()
                warnings.simplefilter("always")
                torch.cuda.set_sync_debug_mode("warn")
            else:
                self.waits.__enter__()
        elif trainer.global_step == LAST:
            if on_gpu:
                torch.cuda.set_sync_debug_mode("default")
                self.told.__exit__(None, None, None)
                for warning in self.warned:
                    self.waits.lines[f"{Path(warning.filename).name}:{warning.lineno}"] += 1
            else:
                self.waits.__exit__(None, None, None)


def waits(overrides: list[str]) -> dict[str, float]:
    """Line -> number of times per step."""
    quiet = ["recipe=plain", "monitor=none", "log_every_n_steps=1000", "val_every_n_steps=1000"]
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        options = [*quiet, f"max_steps={LAST + 1}", *overrides, f"outputs={place}"]
        parts = build(*specs(options))
        counted = CountedSteps()
        parts.monitors.append(counted)
        PreparedRun(parts, Path(place), Console(file=io.StringIO())).fit()
    return {line: count / (LAST - FIRST) for line, count in counted.waits.lines.items()}
