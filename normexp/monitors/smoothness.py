"""How smooth the loss is along its gradient: Figure 4 of Santurkar et al. 2018 (arXiv:1805.11604)."""

from collections.abc import Callable, Mapping, Sequence

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn

from normexp.monitors.base import Monitor
from normexp.monitors.batches import Batches
from normexp.monitors.guard import gradients_of, loss_of, trained_parameters, weights


def along_gradient(
    loss: Callable[[], Tensor], parameters: Sequence[nn.Parameter], step_sizes: Sequence[float]
) -> dict[str, Tensor]:
    """Loss and gradient at w - s g for each step size s, where g is the gradient at w.

    - landscape_loss_min, landscape_loss_max: range of the loss L(w - s g)
    - gradient_predictiveness_min, ..._max: range of the distance |g - g(w - s g)|; a small distance means that the
      gradient predicts itself
    - effective_beta: the largest |g - g(w - s g)| / |s g|, the smoothness along this direction
    """
    origin = gradients_of(loss(), parameters)
    start = [p.detach() for p in parameters]
    losses, distances = [], []
    for size in step_sizes:
        with weights({p: w - size * g for p, w, g in zip(parameters, start, origin, strict=True)}):
            value = loss()
            gradient = gradients_of(value, parameters)
        losses.append(value.detach())
        distances.append(_norm([a - b for a, b in zip(gradient, origin, strict=True)]))
    loss_values, distance = torch.stack(losses), torch.stack(distances)  # (steps,) each
    moved = _norm(origin) * torch.tensor(list(step_sizes), dtype=distance.dtype, device=distance.device)
    return {
        "landscape_loss_min": loss_values.min(),
        "landscape_loss_max": loss_values.max(),
        "gradient_predictiveness_min": distance.min(),
        "gradient_predictiveness_max": distance.max(),
        "effective_beta": (distance / moved).max(),
    }


def _norm(tensors: Sequence[Tensor]) -> Tensor:
    return torch.linalg.vector_norm(torch.cat([x.flatten() for x in tensors]))


class Smoothness(Monitor):
    """`landscape_loss_min`, `landscape_loss_max`, `gradient_predictiveness_min`, `gradient_predictiveness_max` and
    `effective_beta`, each `/network`: of the training batch's loss by all parameters.

    Args:
        step_sizes: distances along the gradient, in units of the gradient, equal in every arm. The default is the
            range of the paper: half to four times its learning rate of 0.1.
    """

    def __init__(
        self, *, every_n_steps: int, step_sizes: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.4)
    ) -> None:
        super().__init__(every_n_steps=every_n_steps)
        if not step_sizes or min(step_sizes) <= 0:
            raise ValueError(f"step_sizes={list(step_sizes)}: give at least one, all positive")
        self.step_sizes = list(step_sizes)

    def keys(self) -> set[str]:
        range_of = ("landscape_loss", "gradient_predictiveness")
        return {f"{name}_{end}" for name in range_of for end in ("min", "max")} | {"effective_beta"}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        def loss() -> Tensor:
            return loss_of(module, batches.training)

        values = along_gradient(loss, trained_parameters(module), self.step_sizes)
        return {f"{name}/network": value for name, value in values.items()}
