"""Batch statistics against population statistics: training-inference discrepancy, its effect on the loss, and on images
that training did not prepare for."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn

from normexp.format import require_at_least
from normexp.models.sites import sites_of
from normexp.monitors.base import Monitor
from normexp.monitors.batches import WITH_ACCURACY, Batches, images_of
from normexp.monitors.guard import step_output
from normexp.monitors.sites import Site, channel_dim, read_input, to_rows
from normexp.norms.layers.running import Names, running_names


def mean_and_std(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (correction 0) of each channel of `rows` (..., n, C), each (..., C)."""
    mean = rows.mean(-2)
    return mean, (rows - mean.unsqueeze(-2)).square().mean(-2).sqrt()


def distances(mean: Tensor, std: Tensor, from_mean: Tensor, from_std: Tensor) -> tuple[Tensor, Tensor]:
    """|mean - from_mean| / |from_std| and |std - from_std| / |from_std|, each (...): norms over channels, so a constant
    channel does not divide by zero."""
    norm = torch.linalg.vector_norm
    scale = norm(from_std, dim=-1)
    return norm(mean - from_mean, dim=-1) / scale, norm(std - from_std, dim=-1) / scale


def discrepancy(rows: Tensor, running_mean: Tensor, running_var: Tensor) -> dict[str, Tensor]:
    """Training-inference discrepancy of one batch, `rows` (..., n, C), against running statistics (..., C), each (...):

    tid_mean = |mean_batch - mean| / |std| and tid_std = |std_batch - std| / |std|, with norms over channels (Wang et
    al. 2022, arXiv:2210.05153). The batch's std has correction 0, since training divides by it.
    """
    moved = distances(*mean_and_std(rows), running_mean, running_var.sqrt())
    return dict(zip(("tid_mean", "tid_std"), moved, strict=True))


def with_running_statistics(module: nn.Module) -> dict[Site, Names]:
    """The places of norms that keep an estimate of their population -> the names of its mean and variance."""
    named = {site: running_names(site.module) for site in sites_of(module)}
    return {site: names for site, names in named.items() if names}


class BatchStatistics(Monitor):
    """`tid_mean/<layer>` and `tid_std/<layer>` of each norm with running statistics, on the held-out batch. Also three
    evaluations of the model (Wu & Johnson 2021, arXiv:2105.07576):

    - `loss_train_batch/network`: training batch, batch statistics
    - `loss_val_batch/network`: held-out batch, batch statistics
    - `loss_population/network`: the same held-out batch, running statistics

    `loss_mode_gap/network` is the third minus the second. If `training_step` returns `batch_accuracy`, as this
    project's does, there are also `accuracy_train_batch`, `accuracy_val_batch` and `accuracy_population`.

    Dropout is off in all three and only the norms change mode, so the norms alone cause the gap. `batch_size` is by
    default that of training, because batch statistics depend on it.
    """

    def __init__(self, *, every_n_steps: int | None, batch_size: int | None = None) -> None:
        super().__init__(every_n_steps=every_n_steps, batch_size=batch_size)

    def keys(self) -> set[str]:
        where = ("train_batch", "val_batch", "population")
        losses = {f"{name}_{source}" for name in ("loss", "accuracy") for source in where}
        return {"tid_mean", "tid_std", "loss_mode_gap"} | losses

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        values: dict[str, Tensor] = {}
        tracked = with_running_statistics(module)
        module.eval()
        population = self._evaluate(module, batches.held_out)
        for site in tracked:
            site.module.train()
        train = self._evaluate(module, batches.training)

        def record(site: Site, x: Tensor) -> None:
            rows = to_rows(x, channel_dim(site.module, x.ndim))
            found = discrepancy(rows, *(getattr(site.module, name).flatten() for name in tracked[site]))
            values.update({f"{name}/{site.layer}": value for name, value in found.items()})

        for site in tracked:
            read_input(site, record)
        val = self._evaluate(module, batches.held_out)
        for source, result in (("train_batch", train), ("val_batch", val), ("population", population)):
            values |= {f"{name}_{source}/network": value for name, value in result.items()}
        values["loss_mode_gap/network"] = population["loss"] - val["loss"]
        return values

    @staticmethod
    def _evaluate(module: LightningModule, batch: Any) -> dict[str, Tensor]:
        with torch.no_grad():
            output = step_output(module, batch)
        keys = {"loss": "loss", "accuracy": "batch_accuracy"}
        return {name: output[key] for name, key in keys.items() if key in output}


class Adaptation(Monitor):
    """Share of wrong answers on held-out images x, and on x + noise * std(x) * z with z from N(0, 1), which training
    did not have. Norms adapt if their statistics come from the test batch (Schneider et al. 2020, arXiv:2006.16971;
    Nado et al. 2020, arXiv:2006.10963):

    - `clean_error/network`, `corrupted_error/network`: all images at once, running statistics
    - `adapted_error_<size>/network`: with noise, each batch of so many images by its own statistics; an incomplete last
      batch is left out
    - `adapted_error_<size>_sorted/network`: the same with images sorted by their label (Niu et al. 2023,
      arXiv:2302.12400)

    A norm without running statistics computes the same in all. There is no value at a size that a norm refuses, as
    BatchNorm between dense layers refuses one image. `training_step` must return `batch_accuracy`.
    """

    remedy = WITH_ACCURACY

    def __init__(
        self,
        *,
        every_n_steps: int | None,
        batch_size: int = 512,
        noise: float = 0.5,
        sizes: Sequence[int] = (1, 4, 64),
    ) -> None:
        super().__init__(every_n_steps=every_n_steps, batch_size=batch_size)
        require_at_least("noise", noise, 0)
        self.noise, self.sizes = noise, tuple(sizes)

    def keys(self) -> set[str]:
        adapted = {f"adapted_error_{size}{order}" for size in self.sizes for order in ("", "_sorted")}
        return {"clean_error", "corrupted_error"} | adapted

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        x, y = images_of(batches.held_out, type(self).__name__)
        z = torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).to(x)
        noisy = x + self.noise * x.std(correction=0) * z
        module.eval()
        found = {"clean_error": error_on(module, x, y), "corrupted_error": error_on(module, noisy, y)}
        for site in with_running_statistics(module):
            site.module.train()
        by_label = y.argsort(stable=True)
        for size in self.sizes:
            for name, order in (("", slice(None)), ("_sorted", by_label)):
                with contextlib.suppress(ValueError):  # a norm refuses this size
                    found[f"adapted_error_{size}{name}"] = error_on(module, noisy[order], y[order], size)
        return {f"{name}/network": value for name, value in found.items() if value is not None}


def error_on(module: LightningModule, x: Tensor, y: Tensor, size: int | None = None) -> Tensor | None:
    """Share of wrong answers over complete batches of `size`; by default all at once. None if there is no such batch,
    or the module does not say."""
    if (size := size or len(x)) > len(x):
        return None
    whole = slice(len(x) // size * size)
    with torch.no_grad():
        outputs = [
            step_output(module, batch)
            for batch in zip(x[whole].split(size), y[whole].split(size), strict=True)
        ]
    right = [output["batch_accuracy"] for output in outputs if "batch_accuracy" in output]
    return 1 - torch.stack(right).mean() if right else None
