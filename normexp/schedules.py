"""Learning rate schedules: the factor on the learning rate as a function of the optimizer step.

A schedule is called as `schedule(step, total_steps) -> factor`. `LitModel` passes it to torch's `LambdaLR`, unless
`schedule.varies` is False.
"""

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

Steps = Annotated[int, Field(ge=0)]


def _warmup(step: int, warmup_steps: int) -> float:
    """Linear from 1/warmup_steps at step 0 to 1, so the first step already moves the weights."""
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0


@dataclass(frozen=True)
class Constant:
    """factor(step) = min(1, (step + 1) / warmup_steps)."""

    warmup_steps: Steps = 0

    @property
    def varies(self) -> bool:
        return self.warmup_steps > 0

    def __call__(self, step: int, total_steps: int) -> float:
        return _warmup(step, self.warmup_steps)


@dataclass(frozen=True)
class WarmupCosine:
    """Linear warm-up, then f + (1 - f) (1 + cos(pi p)) / 2. Here f is `final_fraction`, and p goes from 0 to 1 over the
    remaining steps (Loshchilov & Hutter 2017, without restarts). `warmup_steps=None` means a twentieth of the run."""

    warmup_steps: Steps | None = None
    final_fraction: Annotated[float, Field(ge=0, le=1)] = 0.0

    varies = True

    def __call__(self, step: int, total_steps: int) -> float:
        warmup_steps = total_steps // 20 if self.warmup_steps is None else self.warmup_steps
        if step < warmup_steps:
            return _warmup(step, warmup_steps)
        progress = min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps))
        return self.final_fraction + (1 - self.final_fraction) * 0.5 * (1 + math.cos(math.pi * progress))
