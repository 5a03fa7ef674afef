"""How the inputs of layers move: their distributions between measurements, on one held-out batch; internal covariate
shift as Santurkar et al. 2018 define it (arXiv:1805.11604, definition 2.1); and three proxies.

Public re-implementations measure the proxies on two mini-batches. None is the paper's quantity, which keeps the batch
fixed and changes only the weights.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.utilities import move_data_to_device
from torch import Tensor, nn

from normexp.format import require_at_least
from normexp.models.sites import Site, sites_of
from normexp.monitors.base import Monitor, StepMonitor
from normexp.monitors.batch_statistics import distances, mean_and_std
from normexp.monitors.batches import Batches, gathered_batch, leading_size, rows_of
from normexp.monitors.guard import (
    flat,
    gradients_of,
    loss_of,
    own_buffers,
    reached_gradients,
    to_module,
    trained_parameters,
    untouched,
    weights,
)
from normexp.monitors.sites import (
    channel_dim,
    layer_weights,
    noise_before,
    read_input,
    to_rows,
    weights_before,
)


class Distribution(NamedTuple):
    """One layer's input: mean and std (correction 0) of each channel, (..., C), and sorted values, (..., n, C)."""

    mean: Tensor
    std: Tensor
    ordered: Tensor

    @staticmethod
    def of(rows: Tensor, sample_size: int) -> "Distribution":
        """From `rows` (..., n, C). `ordered` keeps at most `sample_size` of the n, the same ones at every call."""
        mean, std = mean_and_std(rows)
        if rows.shape[-2] > sample_size:
            kept = torch.randperm(rows.shape[-2], generator=torch.Generator().manual_seed(0))[:sample_size]
            rows = rows.index_select(-2, kept.to(rows.device))
        return Distribution(mean, std, rows.sort(-2).values)


def drift(now: Distribution, before: Distribution) -> dict[str, Tensor]:
    """Distance between two distributions of the same samples, in units of the earlier std; each (...).

    - mean_drift = |mean' - mean| / |std| and std_drift = |std' - std| / |std|, with norms over channels
    - wasserstein_drift: the Wasserstein-1 distance of each channel (the mean distance of the sorted values), averaged
      over channels, divided by the root mean square of the std
    """
    of_mean, of_std = distances(now.mean, now.std, before.mean, before.std)
    moved = (now.ordered - before.ordered).abs().mean((-2, -1)) / torch.linalg.vector_norm(before.std, dim=-1)
    return {
        "mean_drift": of_mean,
        "std_drift": of_std,
        "wasserstein_drift": moved * before.std.shape[-1] ** 0.5,
    }


class CovariateShift(Monitor):
    """Drift of the input of each linear map since the previous measurement: `mean_drift/<layer>`,
    `std_drift/<layer>`, `wasserstein_drift/<layer>`. Drift since the first measurement of the run:
    `..._from_start/<layer>`. The first measurement has no drift, and neither has an input after it was constant.

    Also `input_mean/<layer>` (over channels) and `input_std/<layer>` (root mean square over channels). For each norm's
    gain and shift, trained or frozen: `gamma_mean`, `gamma_std`, `beta_mean`, `beta_std` over channels.
    """

    def __init__(self, *, every_n_steps: int | None, batch_size: int = 512, sample_size: int = 512) -> None:
        super().__init__(every_n_steps=every_n_steps, batch_size=batch_size)
        require_at_least("sample_size", sample_size, 2)
        self.sample_size = sample_size

    def keys(self) -> set[str]:
        drifts = {"mean_drift", "std_drift", "wasserstein_drift"}
        affine = {"gamma_mean", "gamma_std", "beta_mean", "beta_std"}
        return {"input_mean", "input_std"} | drifts | {f"{name}_from_start" for name in drifts} | affine

    def forget(self) -> None:
        super().forget()
        self._first: dict[str, Distribution] = {}
        self._previous: dict[str, Distribution] = {}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        now = self._inputs(module, batches.held_out)
        values = {f"input_mean/{layer}": x.mean.mean() for layer, x in now.items()}
        values |= {f"input_std/{layer}": x.std.square().mean().sqrt() for layer, x in now.items()}
        for suffix, reference in (("", self._previous), ("_from_start", self._first)):
            for layer in [layer for layer in reference if layer in now]:  # a pass may leave some out
                before = Distribution(*(x.to(now[layer].mean) for x in reference[layer]))
                if not before.std.any():  # there is no unit
                    continue
                for name, value in drift(now[layer], before).items():
                    values[f"{name}{suffix}/{layer}"] = value
        self._first = self._first or now
        self._previous = now
        return values | affine_parameters(module)

    def _inputs(self, module: LightningModule, batch: Any) -> dict[str, Distribution]:
        found: dict[str, Distribution] = {}

        def record(site: Site, x: Tensor) -> None:
            if site.layer not in found and x.is_floating_point():  # an embedding's input has no moments
                rows = to_rows(x, channel_dim(site.module, x.ndim))
                found[site.layer] = Distribution.of(rows, self.sample_size)

        for site in sites_of(module):
            if site.kind == "linear":
                read_input(site, record)
        with torch.no_grad():
            loss_of(module, batch)
        return found

    def state_dict(self) -> dict[str, Any]:
        references = {"first": self._first, "previous": self._previous}
        saved = {name: {k: tuple(v) for k, v in layers.items()} for name, layers in references.items()}
        return super().state_dict() | saved

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._first, self._previous = (
            {layer: Distribution(*x) for layer, x in state[name].items()} for name in ("first", "previous")
        )


def affine_parameters(module: nn.Module) -> dict[str, Tensor]:
    """Mean and std over channels of the gain (gamma, `weight`) and the shift (beta, `bias`) of each norm."""
    values = {}
    for site in sites_of(module):
        for name, attribute in (("gamma", "weight"), ("beta", "bias")):
            parameter = getattr(site.module, attribute, None) if site.kind == "norm" else None
            if parameter is not None:
                values[f"{name}_mean/{site.layer}"] = parameter.detach().mean()
                values[f"{name}_std/{site.layer}"] = parameter.detach().std(correction=0)
    return values


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
    noisy: Mapping[str, list[nn.Module]] | None = None,
) -> dict[str, tuple[Tensor, Tensor]]:
    """Layer -> (G, G'), each (P,): gradients of the loss by the weights of `layers[layer]`. For G all weights are as
    `before` the step. For G' the weights of `preceding[layer]` are as `after` it, and the norms `noisy[layer]` draw the
    noise of one step later: noise that changes at each step is part of the shift that a later layer sees. The buffers
    are put back."""
    everything = [p for params in layers.values() for p in params]
    with weights(before):
        unmoved = reached_gradients(loss(), everything)
    reached = {layer: params for layer, params in layers.items() if all(p in unmoved for p in params)}
    gradients = {}
    for layer, params in reached.items():
        moving = (noisy or {}).get(layer, [])
        with weights(before | {p: after[p] for p in preceding[layer]}), _next_noise(moving):
            moved = gradients_of(loss(), params)
        gradients[layer] = flat([unmoved[p] for p in params]), flat(moved)
    return gradients


@contextlib.contextmanager
def _next_noise(norms: list[nn.Module]) -> Iterator[None]:
    with contextlib.ExitStack() as kept:
        for norm in norms:
            kept.enter_context(own_buffers(norm))
            norm.next_noise()
        yield


def plain_step(module: LightningModule, batch: Any, rate: float = 0.1) -> tuple[Weights, Weights]:
    """Weights before and after one step of plain gradient descent, which is computed but not taken."""
    before = {p: p.detach().clone() for p in trained_parameters(module)}
    gradients = gradients_of(loss_of(module, batch), list(before))
    return before, {p: w - rate * g for (p, w), g in zip(before.items(), gradients, strict=True)}


class OfOneStep(StepMonitor):
    """Compares the network before and after a step. Nothing is measured after training, since no step follows. Without
    training the step is one of plain gradient descent, at a rate of 0.1, which is computed but not taken."""

    measures_after_training = False


class InternalCovariateShift(OfOneStep):
    """`ics_distance/<layer>` = ||G - G'|| and `ics_cosine/<layer>`, for each layer's linear map (weight and bias).

    G and G' are gradients on the batch of the measured step (the first batch under accumulation). For G' the preceding
    layers have made the optimizer's step, and their norms draw the next step's noise if they draw any (`next_noise`,
    as in NoisyBatchNorm). `sites` says what precedes a layer, norms and embeddings included. Nothing
    precedes the first layer, so its values are 0 and 1. Costs a forward and a backward pass per layer.
    """

    def keys(self) -> set[str]:
        return {"ics_distance", "ics_cosine"}

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        self._batch = batch
        self._before = {p: p.detach().clone() for p in trained_parameters(module)}

    def collect(self, module: LightningModule) -> Mapping[str, Tensor]:
        before, batch = self._before, to_module(gathered_batch(self._batch), module)
        self._before = self._batch = None
        with untouched(module):
            return self._values(module, batch, before, {p: p.detach().clone() for p in before})

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        return self._values(module, batches.training, *plain_step(module, batches.training))

    def _values(
        self, module: LightningModule, batch: Any, before: Weights, after: Weights
    ) -> Mapping[str, Tensor]:
        sites = sites_of(module)
        layers, preceding = layer_weights(sites), weights_before(module, sites)

        loss = functools.partial(loss_of, module, batch)
        gradients = shifted_gradients(loss, layers, preceding, before, after, noise_before(sites))
        values = {}
        for layer, (gradient, shifted) in gradients.items():
            values[f"ics_distance/{layer}"], values[f"ics_cosine/{layer}"] = shift(gradient, shifted)
        return values


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


class CovariateShiftProxies(OfOneStep):
    """`proxy_gradient_sum`, `proxy_gradient_change` and `proxy_beta`, from the measured step and the step after it.
    Each is logged `/<layer>` for the layer's linear map and `/network` for all parameters. Without training, the
    training batch and the held-out batch are the two mini-batches.
    """

    reads_gradients = True
    remedy = "a value takes two steps in a row that have a loss; train longer"
    _steps: list[tuple[Named, Named]]  # (gradients, weights) of each watched step

    def __init__(self, *, every_n_steps: int | None) -> None:
        super().__init__(every_n_steps=every_n_steps)
        if every_n_steps is not None and every_n_steps < 2:
            raise ValueError(f"every_n_steps={every_n_steps}: two steps make one value; use at least 2")

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
        groups = {layer: [self._names[p] for p in params] for layer, params in layers.items()} | {
            "network": list(g)
        }
        values: dict[str, Tensor] = {}
        for layer, names in groups.items():
            common = [name for name in names if name in g and name in g_next]
            if not common:  # no step reaches this layer
                continue
            vectors = [flat([values_of[name] for name in common]) for values_of in (g, g_next, w, w_next)]
            values |= {f"{name}/{layer}": value for name, value in step_to_step(*vectors).items()}
        return values

    def forget(self) -> None:
        super().forget()
        self._steps = []

    def state_dict(self) -> dict[str, Any]:
        """The base's state. If an epoch ends between two steps, it has the first one too."""
        return super().state_dict() | {"steps": self._steps if self.watching else []}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._steps = state["steps"]

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        super().on_train_start(trainer, module)
        if self._steps:
            self._steps = move_data_to_device(self._steps, module.device)
            self._names = {p: name for name, p in module.named_parameters()}
            self.watching = True

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        second = rows_of(batches.held_out, 0, leading_size(batches.training))
        self.watch(module, batches.training, step)
        points = plain_step(module, batches.training)
        for batch, point in zip((batches.training, second), points, strict=True):
            with weights(point):
                gradients = gradients_of(loss_of(module, batch), list(point))
                self.before_update(dict(zip(point, gradients, strict=True)), backward_scale=1.0)
        return self.collect(module)
