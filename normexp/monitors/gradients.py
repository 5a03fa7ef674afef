"""Gradients: their norms by layer and parameter, how these grow over depth, how far a step moves the weights, and the
noise of a batch's gradient.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn

from normexp.format import require_at_least
from normexp.models.sites import Site, names_its_sites, sites_of
from normexp.monitors.base import Monitor, StepMonitor
from normexp.monitors.batches import Batches, leading_size, norms_over_processes, rows_of
from normexp.monitors.guard import (
    NoLoss,
    flat,
    gradients_of,
    guard_depth,
    loss_of,
    reached_gradients,
    require_whole_tensors,
    trained_parameters,
)
from normexp.monitors.listen import listen
from normexp.monitors.sites import layer_weights


def norms_of(tensors: Sequence[Tensor]) -> Tensor:
    """L2 norm of each tensor, (n,), accumulated in at least float32. A GPU launches one kernel for all. Raises
    ValueError if some are DTensors."""
    require_whole_tensors(tensors)
    dtype = torch.float32 if any(x.element_size() < 4 for x in tensors) else None
    return torch.stack(torch._foreach_norm(list(tensors), 2, dtype=dtype))


def joint_norms(norms: Tensor, groups: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    """L2 norm of each group of tensors, seen as one vector. `norms` (n,) are the tensors' norms, `groups` is group ->
    indices."""
    member = [(g, i) for g, indices in enumerate(groups.values()) for i in indices]
    # Not blocking: a copy that waits for the step would add a synchronization.
    group, index = torch.tensor(member).to(norms.device, non_blocking=True).unbind(1)
    squared = norms.new_zeros(len(groups)).index_add_(0, group, norms[index].square())
    return dict(zip(groups, squared.sqrt().unbind(), strict=True))


def growth_rate(norms: Tensor) -> Tensor:
    """Factor by which the squared gradient norm grows per layer toward the input: exp(-2 slope of log norm over depth).

    `norms` is (..., L), first layer first, L >= 2. The slope is that of a least-squares line. Above 1, gradients
    explode toward the input; below 1, they vanish (Yang et al. 2019, A Mean Field Theory of BatchNorm).
    """
    depth = torch.arange(norms.shape[-1], dtype=norms.dtype, device=norms.device)
    depth -= (norms.shape[-1] - 1) / 2  # centered
    slope = norms.log() @ (depth / (depth @ depth))
    return torch.exp(-2 * slope)


def angle(a: Tensor, b: Tensor) -> Tensor:
    """The angle between vectors a and b (..., n) in radians, (...). Angles near 0 keep their digits, which the arc
    cosine would lose."""
    of_a, of_b = (torch.linalg.vector_norm(x, dim=-1, keepdim=True) for x in (a, b))
    across, along = (torch.linalg.vector_norm(x, dim=-1) for x in (a * of_b - b * of_a, a * of_b + b * of_a))
    return 2 * torch.atan2(across, along)


class Gradients(StepMonitor):
    """Gradients of the training loss, unscaled and accumulated, before a Trainer clips them.

    - `gradient_norm/<layer>`: of the layer's linear map (weight and bias) or embedding; `gradient_norm/network`: of all
    - `activation_gradient_norm/<layer>`: of the loss by the output of the layer's non-linearity, all samples together
      (under accumulation, the first batch of the step)
    - `gradient_first_last_ratio/weight` and `/activation`: norm of the first layer divided by that of the last
    - `gradient_growth_rate/weight` and `/activation`: growth of the squared norm per layer
    - `update_ratio/<layer>`: |change of the weights| / |weights| in the step; absent if no step is taken

    Args:
        per_parameter: also log `parameter_gradient_norm/<parameter>`.
        angles: also log `update_angle/<layer>`, the angle in radians between a layer's weights before and after the
            step (Kosson et al. 2023, arXiv:2305.17212), and `gradient_weight_ratio/<layer>`, |gradient| / |weights|.
    """

    reads_gradients = True

    def __init__(
        self, *, every_n_steps: int | None, per_parameter: bool = False, angles: bool = False
    ) -> None:
        super().__init__(every_n_steps=every_n_steps)
        self.per_parameter, self.angles = per_parameter, angles
        self._activation_norms: dict[str, Tensor] = {}
        self._norms: dict[nn.Parameter, Tensor] = {}
        self._before: dict[nn.Parameter, Tensor] = {}

    def keys(self) -> set[str]:
        keys = {"gradient_norm", "activation_gradient_norm", "update_ratio"}
        keys |= {"gradient_first_last_ratio", "gradient_growth_rate"}
        keys |= {"parameter_gradient_norm"} if self.per_parameter else set()
        return keys | {"update_angle", "gradient_weight_ratio"} if self.angles else keys

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        self._activation_norms, self._norms, self._before = {}, {}, {}
        self._module, sites = module, sites_of(module)
        self._linear = layer_weights(sites)
        self._layers = self._linear | layer_weights(sites, "embedding")
        for site in sites:
            if site.kind == "activation":
                self.hear(site.module, functools.partial(self._hear, site.layer))
        if not names_its_sites(module):
            self.handles.append(listen(module, sites, self._called))

    def _called(self, site: Site, x: Tensor) -> Callable[[Tensor], None] | None:
        return functools.partial(self._hear, site.layer) if site.kind == "activation" else None

    def _hear(self, layer: str, output: Tensor) -> None:
        def arrived(gradient: Tensor) -> None:
            with self.attempt():
                self._activation_norms[layer] = norms_of([gradient])[0]

        # On the tensor: a module's backward hook would wrap its output and break in-place layers.
        if isinstance(output, Tensor) and output.requires_grad:
            output.register_hook(arrived)

    def before_update(self, gradients: dict[nn.Parameter, Tensor], backward_scale: float) -> None:
        if not gradients:
            return
        self._norms = dict(zip(gradients, norms_of(list(gradients.values())).unbind(), strict=True))
        layers = self._layers.values()
        self._before = {p: p.detach().clone() for params in layers for p in params if p in gradients}
        self._backward_scale = backward_scale

    def _groups(self, parameters: Iterable[nn.Parameter]) -> dict[str, list[int]]:
        """Layer -> the indices of its own among `parameters`, of layers that have any."""
        index = {p: i for i, p in enumerate(parameters)}
        groups = {layer: [index[p] for p in params if p in index] for layer, params in self._layers.items()}
        return {layer: indices for layer, indices in groups.items() if indices}

    def _of_gradients(self) -> dict[str, Tensor]:
        groups = self._groups(self._norms) | {"network": list(range(len(self._norms)))}
        layers = joint_norms(torch.stack(list(self._norms.values())), groups)
        values = {f"gradient_norm/{layer}": norm for layer, norm in layers.items()}
        if self.angles:
            for layer in (layer for layer in self._layers if layer in layers):
                size = norms_of([p.detach() for p in self._layers[layer]]).norm()
                values[f"gradient_weight_ratio/{layer}"] = layers[layer] / size
        activations = self._of_activations()
        values |= {f"activation_gradient_norm/{layer}": norm for layer, norm in activations.items()}
        of_maps = {layer: norm for layer, norm in layers.items() if layer in self._linear}
        for name, by_layer in (("weight", of_maps), ("activation", activations)):
            if len(by_layer) >= 2:
                by_depth = torch.stack(list(by_layer.values()))
                values[f"gradient_first_last_ratio/{name}"] = by_depth[0] / by_depth[-1]
                values[f"gradient_growth_rate/{name}"] = growth_rate(by_depth)
        if self.per_parameter:
            names = {p: name for name, p in self._module.named_parameters()}
            values |= {f"parameter_gradient_norm/{names[p]}": norm for p, norm in self._norms.items()}
        return values

    def _of_activations(self) -> dict[str, Tensor]:
        if not self._activation_norms:
            return {}
        layers = sorted(self._activation_norms)
        norms = torch.stack([self._activation_norms[layer] for layer in layers]) / self._backward_scale
        return dict(zip(layers, norms if guard_depth() else norms_over_processes(norms), strict=True))

    def collect(self, module: LightningModule) -> Mapping[str, Tensor]:
        if not self._norms:
            raise NoLoss("no gradient reaches a step, which is not measured")
        values = self._of_gradients()
        if self._before:
            before, after = list(self._before.values()), [p.detach() for p in self._before]
            groups = self._groups(self._before)
            change = joint_norms(norms_of(torch._foreach_sub(after, before)), groups)
            size = joint_norms(norms_of(before), groups)
            values |= {f"update_ratio/{layer}": change[layer] / size[layer] for layer in groups}
            if self.angles:
                for layer, indices in groups.items():
                    sides = (flat([side[i] for i in indices]) for side in (before, after))
                    values[f"update_angle/{layer}"] = angle(*sides)
        self._norms, self._before, self._module = {}, {}, None
        return values

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        self.watch(module, batches.training, step)
        parameters = trained_parameters(module)
        gradients = reached_gradients(loss_of(module, batches.training), parameters)
        self.before_update(gradients, backward_scale=1.0)
        self._before = {}  # no step was taken
        return self.collect(module)


def noise_and_signal(squared_norms: Tensor, squared_mean_norm: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Unbiased estimates of tr(Sigma), the variance of one sample's gradient summed over parameters, and of |G|^2.

    `squared_norms` (..., k) holds |g|^2 of k chunks of `size` samples; `squared_mean_norm` (...) is |g|^2 of the mean
    of the k gradients. The estimates solve E|g_b|^2 = |G|^2 + tr(Sigma) / b at b = size and b = k size (McCandlish et
    al. 2018, arXiv:1812.06162, appendix A). Both can be negative.
    """
    total = squared_norms.shape[-1] * size
    small, big = squared_norms.mean(-1), squared_mean_norm
    signal = (total * big - size * small) / (total - size)
    noise = (small - big) / (1 / size - 1 / total)
    return noise, signal


class GradientNoiseScale(Monitor):
    """From the training batch, cut into `chunks`: `gradient_noise/network` is tr(Sigma), `gradient_signal/network` is
    |G|^2, and `gradient_noise_scale/network` is their ratio, in samples.

    One batch gives a noisy ratio: average noise and signal over steps, then divide. With batch statistics each chunk
    is normalized by itself, as in data-parallel training, and that noise counts too. A batch of fewer than four samples
    has no value.
    """

    remedy = "it needs batches of at least four samples"

    def __init__(self, *, every_n_steps: int | None, chunks: int = 8) -> None:
        super().__init__(every_n_steps=every_n_steps)
        require_at_least("chunks", chunks, 2)
        self.chunks = chunks

    def keys(self) -> set[str]:
        return {"gradient_noise", "gradient_signal", "gradient_noise_scale"}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        parameters = trained_parameters(module)
        batch_size = leading_size(batches.training)
        chunks = min(self.chunks, batch_size // 2)  # at least two samples each, for batch statistics
        if chunks < 2:
            return {}
        size = batch_size // chunks
        gradients = []
        for start in range(0, chunks * size, size):
            loss = loss_of(module, rows_of(batches.training, start, start + size))
            gradients.append(flat(gradients_of(loss, parameters)))
        stacked = torch.stack(gradients)  # (chunks, P)
        noise, signal = noise_and_signal((stacked**2).sum(-1), (stacked.mean(0) ** 2).sum(), size)
        return {
            "gradient_noise/network": noise,
            "gradient_signal/network": signal,
            "gradient_noise_scale/network": noise / signal,
        }
