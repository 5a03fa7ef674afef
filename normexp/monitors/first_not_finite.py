"""Find the first layer whose value is not finite, for `debug=nan`."""

from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor, nn

from normexp.format import printable
from normexp.monitors.guard import guard_depth


class FirstNotFinite(Callback):
    """Checks the output of each layer and the gradient of each parameter in every step, and stops the run at the first
    one that is infinite or NaN. Prints its name, and how large the value before it was. Logs the step under
    `not_finite/<name>`, for the answer at the end.

    It changes no number. It waits for the device once per step, so use it to find errors, not to measure. Layers are
    the modules without children, in the order of their calls. Compiled modules run no hooks, so do not set `compile`.

    Attributes:
        found: the sentence that was printed, or None.
    """

    def __init__(self) -> None:
        self.found: str | None = None
        self._handles: list[Any] = []
        self._outputs: list[tuple[str, Tensor]] = []  # of this step: (name, largest absolute value)

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        for name, child in module.named_modules():
            if not any(child.children()):
                note = self._noting(f"the output of {name} ({type(child).__name__})")
                self._handles.append(child.register_forward_hook(note))

    def _noting(self, name: str):
        def note(child: nn.Module, inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and child.training and not guard_depth():
                self._outputs.append((name, output.detach().abs().max()))

        return note

    def on_before_optimizer_step(self, trainer: Trainer, module: LightningModule, optimizer: Any) -> None:
        gradients = [
            (f"the gradient of {name}", p.grad.abs().max())
            for name, p in reversed(list(module.named_parameters()))
            if p.grad is not None
        ]
        seen, self._outputs = [*self._outputs, *gradients], []
        if self.found or not seen:
            return
        largest = torch.stack([value.float() for _, value in seen]).tolist()  # the only wait for the device
        first = next((i for i, value in enumerate(largest) if not value < float("inf")), None)  # NaN, too
        if first is None:
            return
        before = f"; before it {seen[first - 1][0]} reached {largest[first - 1]:.3g}" if first else ""
        what = "NaN" if largest[first] != largest[first] else "infinite"
        step, name = trainer.global_step + 1, seen[first][0]
        self.found = f"first value that is not finite: step {step}, {name} is {what}{before}"
        print(printable(self.found), flush=True)
        for logger in trainer.loggers:
            logger.log_metrics({f"not_finite/{name}": step}, step)
        trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
