"""Gradient norms by layer and parameter, how they grow over depth, and how far a step moves the weights."""

from collections.abc import Mapping
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn

from normexp.monitors.base import Batches, StepMonitor
from normexp.monitors.guard import gradients_of, guard_depth, loss_of, trained_parameters
from normexp.monitors.sites import layer_weights, sites_of


def joint_norm(tensors: list[Tensor]) -> Tensor:
    """L2 norm of several tensors taken as one vector, accumulated in float32 at least."""
    norms = [
        torch.linalg.vector_norm(x, dtype=torch.float32 if x.element_size() < 4 else x.dtype) for x in tensors
    ]
    return torch.linalg.vector_norm(torch.stack(norms))


def growth_rate(norms: Tensor) -> Tensor:
    """Factor by which the squared gradient norm grows per layer on its way back: exp(-2 slope of log norm over depth).

    `norms` is (..., L), first layer first, L >= 2; the slope is the least-squares line's. Above 1 gradients explode
    towards the input, below 1 they vanish (the quantity of Yang et al. 2019, A Mean Field Theory of BatchNorm).
    """
    depth = torch.arange(norms.shape[-1], dtype=norms.dtype, device=norms.device)
    depth = depth - depth.mean()
    slope = (norms.log() * depth).sum(-1) / (depth**2).sum()
    return torch.exp(-2 * slope)


class Gradients(StepMonitor):
    """Of the training loss, as the optimizer gets it: unscaled, accumulated, before clipping.

    `gradient_norm/<layer>` of a layer's linear map (weight and bias), `gradient_norm/network` of all parameters;
    `activation_gradient_norm/<layer>` of the loss by the output of the layer's non-linearity, all samples together (the
    first batch of a step under accumulation); `gradient_first_last_ratio/weight` and `/activation`, the first layer's
    norm over the last's; `gradient_growth_rate/weight` and `/activation` per layer, of squared norms;
    `update_ratio/<layer>`, |change of the weights| / |weights| in the step, absent where no step is taken.

    Args:
        per_parameter: also `parameter_gradient_norm/<parameter>`.
    """

    def __init__(self, *, every_n_steps: int, per_parameter: bool = False) -> None:
        super().__init__(every_n_steps=every_n_steps)
        self.per_parameter = per_parameter
        self._activation_norms: dict[str, Tensor] = {}
        self._values: dict[str, Tensor] = {}
        self._before: dict[str, list[Tensor]] = {}

    def keys(self) -> set[str]:
        keys = {"gradient_norm", "activation_gradient_norm", "update_ratio"}
        keys |= {"gradient_first_last_ratio", "gradient_growth_rate"}
        return keys | {"parameter_gradient_norm"} if self.per_parameter else keys

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        self._activation_norms, self._values, self._before = {}, {}, {}
        self._layers = layer_weights(sites_of(module))
        self._names = {p: name for name, p in module.named_parameters()}
        depth = guard_depth()
        for site in sites_of(module):
            if site.kind == "activation":
                self._listen(site.layer, site.module, depth)

    def _listen(self, layer: str, activation: nn.Module, depth: int) -> None:
        def hook(module: nn.Module, inputs: tuple, output: Tensor) -> None:
            if guard_depth() == depth:
                handle.remove()
                # On the tensor: a module's backward hook would wrap its output and break in-place layers.
                if output.requires_grad:
                    output.register_hook(lambda g: self._activation_norms.update({layer: joint_norm([g])}))

        handle = activation.register_forward_hook(hook)
        self.handles.append(handle)

    def before_update(self, gradients: dict[nn.Parameter, Tensor], backward_scale: float) -> None:
        activations = {layer: norm / backward_scale for layer, norm in sorted(self._activation_norms.items())}
        layers = {
            layer: joint_norm([gradients[p] for p in weights if p in gradients])
            for layer, weights in self._layers.items()
            if any(p in gradients for p in weights)
        }
        self._values = {f"gradient_norm/{layer}": norm for layer, norm in layers.items()}
        self._values |= {f"activation_gradient_norm/{layer}": norm for layer, norm in activations.items()}
        self._values["gradient_norm/network"] = joint_norm(list(gradients.values()))
        for name, norms in (("weight", layers), ("activation", activations)):
            if len(norms) >= 2:
                by_depth = torch.stack(list(norms.values()))
                self._values[f"gradient_first_last_ratio/{name}"] = by_depth[0] / by_depth[-1]
                self._values[f"gradient_growth_rate/{name}"] = growth_rate(by_depth)
        if self.per_parameter:
            for parameter, gradient in gradients.items():
                self._values[f"parameter_gradient_norm/{self._names[parameter]}"] = joint_norm([gradient])
        self._before = {
            layer: [p.detach().clone() for p in weights] for layer, weights in self._layers.items()
        }

    def collect(self, module: LightningModule) -> Mapping[str, Tensor]:
        for layer, before in self._before.items():
            change = [p.detach() - old for p, old in zip(self._layers[layer], before, strict=True)]
            self._values[f"update_ratio/{layer}"] = joint_norm(change) / joint_norm(before)
        values, self._values, self._before = self._values, {}, {}
        return values

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        self.watch(module, batches.training, step)
        parameters = trained_parameters(module)
        gradients = gradients_of(loss_of(module, batches.training), parameters)
        self.release()
        self.before_update(dict(zip(parameters, gradients, strict=True)), backward_scale=1.0)
        self._before = {}  # no step was taken
        return self.collect(module)
