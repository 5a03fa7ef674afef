"""How the distribution of each layer's input moves between measurements, on one held-out batch."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, nn

from normexp.monitors.base import Monitor
from normexp.monitors.batches import Batches
from normexp.monitors.guard import loss_of
from normexp.monitors.sites import channel_dim, first_tensor, sites_of, to_rows


class Distribution(NamedTuple):
    """One layer's input: mean and std (correction 0) of each channel, (..., C), and sorted values, (..., n, C)."""

    mean: Tensor
    std: Tensor
    ordered: Tensor

    @staticmethod
    def of(rows: Tensor, sample_size: int) -> "Distribution":
        """From `rows` (..., n, C). `ordered` keeps at most `sample_size` of the n, the same ones at every call."""
        mean = rows.mean(-2)
        std = (rows - mean.unsqueeze(-2)).square().mean(-2).sqrt()
        if rows.shape[-2] > sample_size:
            kept = torch.randperm(rows.shape[-2], generator=torch.Generator().manual_seed(0))[:sample_size]
            rows = rows.index_select(-2, kept.to(rows.device))
        return Distribution(mean, std, rows.sort(-2).values)


def drift(now: Distribution, before: Distribution) -> dict[str, Tensor]:
    """Distance between two distributions of the same samples, in units of the earlier std; each (...).

    - mean_drift = |mean' - mean| / |std| and std_drift = |std' - std| / |std|, with norms over channels, so a constant
      channel does not divide by zero
    - wasserstein_drift: the Wasserstein-1 distance of each channel (the mean distance of the sorted values), averaged
      over channels, divided by the root mean square of the std
    """
    norm = torch.linalg.vector_norm
    scale = norm(before.std, dim=-1)
    wasserstein = (now.ordered - before.ordered).abs().mean((-2, -1))
    return {
        "mean_drift": norm(now.mean - before.mean, dim=-1) / scale,
        "std_drift": norm(now.std - before.std, dim=-1) / scale,
        "wasserstein_drift": wasserstein / scale * before.std.shape[-1] ** 0.5,
    }


class CovariateShift(Monitor):
    """Drift of the input of each linear map since the previous measurement: `mean_drift/<layer>`,
    `std_drift/<layer>`, `wasserstein_drift/<layer>`. Drift since the first measurement of the run:
    `..._from_start/<layer>`. The first measurement has no drift.

    Also `input_mean/<layer>` (over channels) and `input_std/<layer>` (root mean square over channels). For each norm's
    gain and shift, trained or frozen: `gamma_mean`, `gamma_std`, `beta_mean`, `beta_std` over channels.
    """

    def __init__(self, *, every_n_steps: int | None, batch_size: int = 512, sample_size: int = 512) -> None:
        super().__init__(every_n_steps=every_n_steps, batch_size=batch_size)
        if sample_size < 2:
            raise ValueError(f"sample_size={sample_size}: must be at least 2")
        self.sample_size = sample_size
        self._first: dict[str, Distribution] = {}
        self._previous: dict[str, Distribution] = {}

    def keys(self) -> set[str]:
        drifts = {"mean_drift", "std_drift", "wasserstein_drift"}
        affine = {"gamma_mean", "gamma_std", "beta_mean", "beta_std"}
        return {"input_mean", "input_std"} | drifts | {f"{name}_from_start" for name in drifts} | affine

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        super().setup(trainer, module, stage)
        if stage == "fit":  # a resumed run loads its state later
            self._first, self._previous = {}, {}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        now = self._inputs(module, batches.held_out)
        values = {f"input_mean/{layer}": x.mean.mean() for layer, x in now.items()}
        values |= {f"input_std/{layer}": x.std.square().mean().sqrt() for layer, x in now.items()}
        for suffix, reference in (("", self._previous), ("_from_start", self._first)):
            for layer, before in reference.items():
                before = Distribution(*(x.to(now[layer].mean) for x in before))
                for name, value in drift(now[layer], before).items():
                    values[f"{name}{suffix}/{layer}"] = value
        self._first = self._first or now
        self._previous = now
        return values | affine_parameters(module)

    def _inputs(self, module: LightningModule, batch: Any) -> dict[str, Distribution]:
        found: dict[str, Distribution] = {}

        def record(layer: str, linear: nn.Module, x: Tensor | None) -> None:
            # An embedding's input has no moments.
            if layer not in found and x is not None and x.is_floating_point():
                found[layer] = Distribution.of(to_rows(x, channel_dim(linear, x.ndim)), self.sample_size)

        for site in sites_of(module):
            if site.kind == "linear":
                # `untouched` drops this hook at its end.
                site.module.register_forward_pre_hook(
                    lambda linear, inputs, named, layer=site.layer: record(
                        layer, linear, first_tensor(inputs, named)
                    ),
                    with_kwargs=True,
                )
        with torch.no_grad():
            loss_of(module, batch)
        return found

    def state_dict(self) -> dict[str, Any]:
        references = {"first": self._first, "previous": self._previous}
        plain = {name: {k: tuple(v) for k, v in layers.items()} for name, layers in references.items()}
        return plain | {"sizes": [self.batch_size, self.sample_size]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        # Otherwise the samples differ, and drift starts anew.
        if state["sizes"] == [self.batch_size, self.sample_size]:
            self._first = {layer: Distribution(*x) for layer, x in state["first"].items()}
            self._previous = {layer: Distribution(*x) for layer, x in state["previous"].items()}


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
