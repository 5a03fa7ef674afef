"""Proxies that public re-implementations of Santurkar et al. measure. None is the paper's quantity.

Compare them with `internal_covariate_shift` and `smoothness`, which keep the batch fixed and change only the weights.
"""

from collections.abc import Mapping
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, nn

from normexp.monitors.batches import Batches
from normexp.monitors.gradient_noise import leading_size, rows_of
from normexp.monitors.guard import gradients_of, loss_of, weights
from normexp.monitors.internal_covariate_shift import plain_step
from normexp.monitors.sites import layer_weights, sites_of
from normexp.monitors.step_monitor import StepMonitor

Named = dict[str, Tensor]  # by the parameter's name, as in checkpoints


def step_to_step(g: Tensor, g_next: Tensor, w: Tensor, w_next: Tensor) -> dict[str, Tensor]:
    """From gradients and weights (..., P) of two consecutive steps, each on its own mini-batch. Each result is (...):

    - proxy_gradient_sum = |g' + g| ("ICS" in course notebooks)
    - proxy_gradient_change = |g' - g| ("gradient predictiveness" there)
    - proxy_beta = |g' - g| / |w' - w| ("beta-smoothness" there)
    """
    norm = torch.linalg.vector_norm
    change = norm(g_next - g, dim=-1)
    return {
        "proxy_gradient_sum": norm(g_next + g, dim=-1),
        "proxy_gradient_change": change,
        "proxy_beta": change / norm(w_next - w, dim=-1),
    }


def gradient_norm_envelope(norms: Tensor) -> tuple[Tensor, Tensor]:
    """Lowest and highest gradient norm at each step over runs with several learning rates: (runs, steps) -> (steps,)
    each. This is the fourth proxy, "loss landscape" in notebooks. It needs several runs, so no callback measures it."""
    return norms.amin(0), norms.amax(0)


class CovariateShiftProxies(StepMonitor):
    """`proxy_gradient_sum`, `proxy_gradient_change` and `proxy_beta`, from the measured step and the step after it.
    Each is logged `/<layer>` for the layer's linear map and `/network` for all parameters.

    Args:
        step_size: used only when `measure` is called without training. It is the size of a gradient step that is
            computed but not taken. The training batch and the held-out batch are then the two mini-batches.
    """

    measures_after_training = False
    reads_gradients = True

    def __init__(self, *, every_n_steps: int, step_size: float = 0.1) -> None:
        super().__init__(every_n_steps=every_n_steps)
        if every_n_steps < 2:
            raise ValueError(f"every_n_steps={every_n_steps}: two steps make one value; use at least 2")
        if not step_size > 0:
            raise ValueError(f"step_size={step_size}: must be positive")
        self.step_size = step_size
        self._steps: list[tuple[Named, Named]] = []  # (gradients, weights) of each watched step

    def keys(self) -> set[str]:
        return {"proxy_gradient_sum", "proxy_gradient_change", "proxy_beta"}

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        self._steps = []
        self._names = {p: name for name, p in module.named_parameters()}

    def before_update(self, gradients: dict[nn.Parameter, Tensor], backward_scale: float) -> None:
        named = {self._names[p]: g.clone() for p, g in gradients.items()}
        self._steps.append((named, {self._names[p]: p.detach().clone() for p in gradients}))

    def collect(self, module: LightningModule) -> Mapping[str, Tensor] | None:
        if len(self._steps) < 2:
            return None
        (g, w), (g_next, w_next) = self._steps
        self._steps = []
        layers = layer_weights(sites_of(module))
        groups = {layer: [self._names[p] for p in own] for layer, own in layers.items()} | {
            "network": list(g)
        }
        values = {}
        for layer, names in groups.items():
            own = [name for name in names if name in g and name in g_next]
            if not own:  # no step reaches this layer
                continue
            vectors = [
                torch.cat([values_of[name].flatten() for name in own]) for values_of in (g, g_next, w, w_next)
            ]
            values |= {f"{name}/{layer}": value for name, value in step_to_step(*vectors).items()}
        return values

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        super().setup(trainer, module, stage)
        self._steps = []

    def state_dict(self) -> dict[str, Any]:
        """The base's state. If an epoch ends between two steps, it has the first one too."""
        return super().state_dict() | {"steps": self._steps if self.watching else []}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._steps = state["steps"]

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if self._steps:
            device = module.device
            self._steps = [
                tuple({name: x.to(device) for name, x in values.items()} for values in step)
                for step in self._steps
            ]
            self._names = {p: name for name, p in module.named_parameters()}
            self.watching = True

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        second = rows_of(batches.held_out, 0, leading_size(batches.training))
        self.watch(module, batches.training, step)
        points = plain_step(module, batches.training, self.step_size)
        for batch, point in zip((batches.training, second), points, strict=True):
            with weights(point):
                gradients = gradients_of(loss_of(module, batch), list(point))
                self.before_update(dict(zip(point, gradients, strict=True)), backward_scale=1.0)
        return self.collect(module)
