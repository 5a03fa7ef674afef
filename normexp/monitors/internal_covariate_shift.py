"""Internal covariate shift as Santurkar et al. 2018 define it (arXiv:1805.11604, definition 2.1)."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn

from normexp.monitors.batches import Batches, writes
from normexp.monitors.guard import gradients_of, loss_of, to_module, trained_parameters, untouched, weights
from normexp.monitors.joint import joint_batch
from normexp.monitors.sites import layer_weights, sites_of, weights_before
from normexp.monitors.step_monitor import StepMonitor

Weights = dict[nn.Parameter, Tensor]


def shift(gradient: Tensor, shifted: Tensor) -> tuple[Tensor, Tensor]:
    """||G - G'|| and the cosine of the angle between G and G'; vectors are (..., P), results (...)."""
    distance = torch.linalg.vector_norm(gradient - shifted, dim=-1)
    return distance, torch.nn.functional.cosine_similarity(gradient, shifted, dim=-1)


def shifted_gradients(
    loss: Callable[[], Tensor],
    layers: Mapping[str, list[nn.Parameter]],
    preceding: Mapping[str, list[nn.Parameter]],
    before: Weights,
    after: Weights,
) -> dict[str, tuple[Tensor, Tensor]]:
    """Layer -> (G, G'), each (P,): gradients of the loss by the weights of `layers[layer]`. For G all weights are as
    `before` the step. For G' the weights of `preceding[layer]` are as `after` it."""
    everything = [p for own in layers.values() for p in own]
    with weights(before):
        unmoved = dict(zip(everything, gradients_of(loss(), everything), strict=True))
    gradients = {}
    for layer, own in layers.items():
        with weights(before | {p: after[p] for p in preceding[layer]}):
            moved = gradients_of(loss(), own)
        gradients[layer] = _flat([unmoved[p] for p in own]), _flat(moved)
    return gradients


def _flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([x.flatten() for x in tensors])


def plain_step(module: LightningModule, batch: Any, step_size: float) -> tuple[Weights, Weights]:
    """Weights before and after one step of plain gradient descent, which is computed but not taken."""
    before = {p: p.detach().clone() for p in trained_parameters(module)}
    gradients = gradients_of(loss_of(module, batch), list(before))
    return before, {p: w - step_size * g for (p, w), g in zip(before.items(), gradients, strict=True)}


class InternalCovariateShift(StepMonitor):
    """`ics_distance/<layer>` = ||G - G'|| and `ics_cosine/<layer>`, for each layer's linear map (weight and bias).

    G and G' are gradients on the batch of the measured step (the first batch under accumulation). For G' the preceding
    layers have made the optimizer's step. `sites` says what precedes a layer, norms and embeddings included. Nothing
    precedes the first layer, so its values are 0 and 1. Costs a forward and a backward pass per layer.

    Args:
        step_size: used only when `measure` is called without training. It is the size of a gradient step that is
            computed but not taken.
    """

    measures_after_training = False  # no step follows the last one

    def __init__(self, *, every_n_steps: int, step_size: float = 0.1) -> None:
        super().__init__(every_n_steps=every_n_steps)
        if not step_size > 0:
            raise ValueError(f"step_size={step_size}: must be positive")
        self.step_size = step_size

    def keys(self) -> set[str]:
        return {"ics_distance", "ics_cosine"}

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        self._batch, self._writes = batch, writes(batch)
        self._before = {p: p.detach().clone() for p in trained_parameters(module)}

    def collect(self, module: LightningModule) -> Mapping[str, Tensor]:
        self.require_unwritten(self._batch, self._writes)  # by the step
        before, batch = self._before, to_module(joint_batch(self._batch), module)
        self._before = self._batch = None
        with untouched(module):
            return self._values(module, batch, before, {p: p.detach().clone() for p in before})

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        return self._values(module, batches.training, *plain_step(module, batches.training, self.step_size))

    def _values(
        self, module: LightningModule, batch: Any, before: Weights, after: Weights
    ) -> Mapping[str, Tensor]:
        sites = sites_of(module)
        layers, preceding = layer_weights(sites), weights_before(module, sites)
        gradients = shifted_gradients(lambda: loss_of(module, batch), layers, preceding, before, after)
        values = {}
        for layer, (gradient, shifted) in gradients.items():
            values[f"ics_distance/{layer}"], values[f"ics_cosine/{layer}"] = shift(gradient, shifted)
        return values
