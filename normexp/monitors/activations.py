"""Activation statistics of training batches at norms, non-linearities and the residual stream."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import torch
from pytorch_lightning import LightningModule
from pytorch_lightning.loggers import Logger
from torch import Tensor, nn

from normexp.monitors import activation_statistics as stats
from normexp.monitors.batches import Batches
from normexp.monitors.called_functions import listen, unheard
from normexp.monitors.guard import guard_depth, loss_of
from normexp.monitors.joint import joint
from normexp.monitors.sites import Site, channel_dim, first_tensor, names_its_sites, sites_of
from normexp.monitors.step_monitor import StepMonitor

Place = Literal["norm_input", "norm_output", "preactivation", "activation", "residual"]
Statistic = Literal[
    "mean", "std", "skew", "kurtosis", "max_abs", "l2_norm", "channel_spread",
    "p15", "p50", "p85", "saturated_fraction", "derivative_near_zero_fraction", "dead_fraction",
]  # fmt: skip
OF_ACTIVATIONS = ("saturated_fraction", "derivative_near_zero_fraction", "dead_fraction")
PLACES = {
    "norm_input": ("norm", "input"), "norm_output": ("norm", "output"), "preactivation": ("activation", "input"),
    "activation": ("activation", "output"), "residual": ("residual", "output"),
}  # fmt: skip


class Activations(StepMonitor):
    """Statistics (`activation_statistics.py`) at each chosen place, as `<place>_<statistic>/<layer>`. For each
    activation also `saturated_fraction`, `derivative_near_zero_fraction` and `dead_fraction`, each `/<layer>`.

    Args:
        places: preactivation and activation are the input and output of a non-linearity.
        sample_size: number of random values for percentiles and histograms. Other statistics use every value.
        histogram_every_n_steps: also send TensorBoard a histogram of the sample; a multiple of every_n_steps.

    Saturation is measured only for activations that are bounded on both sides. A module may define
    `padding_mask(batch)`, (N, T), True at real tokens; padding then counts nowhere. After the last step, the last
    training batch is measured again.
    """

    def __init__(
        self,
        *,
        every_n_steps: int,
        places: Sequence[Place] = ("preactivation", "activation"),
        statistics: Sequence[Statistic] = ("mean", "std", "p15", "p50", "p85", *OF_ACTIVATIONS),
        sample_size: int = 1024,
        histogram_every_n_steps: int | None = None,
    ) -> None:
        super().__init__(every_n_steps=every_n_steps)
        for argument, given, known in (("places", places, Place), ("statistics", statistics, Statistic)):
            unknown = sorted(set(given) - set(get_args(known)))
            if unknown:
                raise ValueError(
                    f"{argument}={unknown}: no such choice; choose from {', '.join(get_args(known))}"
                )
        if sample_size < 1:
            raise ValueError(f"sample_size={sample_size}: must be at least 1")
        if histogram_every_n_steps is not None and histogram_every_n_steps % every_n_steps:
            raise ValueError(
                f"histogram_every_n_steps={histogram_every_n_steps}: not a multiple of every_n_steps={every_n_steps}; "
                "histograms are taken where statistics are"
            )
        self.places, self.statistics, self.sample_size = list(places), list(statistics), sample_size
        self.histogram_every_n_steps = histogram_every_n_steps
        self._values: dict[str, Tensor] = {}
        self._samples: dict[tuple[str, str], Tensor] = {}  # (place, layer) -> random values

    steps_alone = True

    def remedy(self) -> str:
        have = sorted({place for place, (kind, _) in PLACES.items() if f" 0 {kind}" not in f" {self.found}"})
        usable = [place for place in have if place not in self.places]
        return f"set places={usable}, or define `sites()`" if usable else super().remedy()

    def keys(self) -> set[str]:
        of_places = [name for name in self.statistics if name not in OF_ACTIVATIONS]
        return {f"{place}_{name}" for place in self.places for name in of_places} | (
            set(self.statistics) & set(OF_ACTIVATIONS)
        )

    def watch(self, module: LightningModule, batch: Any, step: int) -> None:
        self._values, self._samples, self._step = {}, {}, step
        self._mask = module.padding_mask(batch) if hasattr(module, "padding_mask") else None
        if self._mask is not None and guard_depth() == 0:
            self._mask = joint(self._mask)
        sites = sites_of(module)
        for site in sites:
            for end, record in self._measures(site):
                self._attach(site, end, record)
        if not names_its_sites(module):
            self.handles.append(listen(module, sites, self._heard))

    def _measures(self, site: Site) -> Iterator[tuple[str, Callable[[Tensor], None]]]:
        """What is recorded at a site: its input or its output, and by what."""
        for place in self.places:
            kind, end = PLACES[place]
            if site.kind == kind:
                yield end, functools.partial(self._describe, site, place)
        if site.kind == "activation":
            if set(self.statistics) & {"derivative_near_zero_fraction", "dead_fraction"}:
                yield "input", functools.partial(self._flat, site)
            if "saturated_fraction" in self.statistics and stats.bounds(site.module):
                yield "output", functools.partial(self._saturated, site)

    def _heard(self, site: Site, x: Tensor) -> Callable[[Tensor], None]:
        measures = list(self._measures(site))

        def record(end: str, value: Tensor) -> None:
            for place, measure in measures:
                if place == end:
                    measure(value if guard_depth() else joint(value))

        record("input", x)  # before it runs: it may work in place
        return functools.partial(record, "output")

    def _attach(self, site: Site, end: str, record: Callable[[Tensor], None]) -> None:
        """Record the first pass, then detach. A module that runs twice in a step counts once, also in accumulation."""
        depth = guard_depth()

        def hook(module: nn.Module, inputs: tuple, named: dict, output: Tensor | None = None) -> None:
            if guard_depth() == depth:
                handle.remove()
                x = first_tensor(inputs, named) if end == "input" else output
                if isinstance(x, Tensor):
                    with unheard():
                        # An extra pass already has the batch of all processes.
                        record(x if depth else joint(x))

        # Read an input before the module runs, because an in-place activation overwrites it.
        before = end == "input"
        attach = site.module.register_forward_pre_hook if before else site.module.register_forward_hook
        handle = attach(hook, with_kwargs=True)
        self.handles.append(handle)

    def _rows(self, site: Site, x: Tensor) -> Tensor:
        return stats.to_rows(x, channel_dim(site.module, x.ndim), self._mask)

    def _describe(self, site: Site, place: str, x: Tensor) -> None:
        rows = self._rows(site, x)
        for name, value in stats.describe(rows, self.statistics).items():
            self._values[f"{place}_{name}/{site.layer}"] = value
        self._samples[place, site.layer] = stats.random_sample(rows, self.sample_size, seed=self._step)

    def _flat(self, site: Site, x: Tensor) -> None:
        fractions = stats.flat_fractions(self._rows(site, stats.derivative(site.module, x)))
        for name in [name for name in self.statistics if name in fractions]:
            self._values[f"{name}/{site.layer}"] = fractions[name]

    def _saturated(self, site: Site, x: Tensor) -> None:
        fraction = stats.saturated_fraction(self._rows(site, x), *stats.bounds(site.module))
        self._values[f"saturated_fraction/{site.layer}"] = fraction

    def collect(self, module: LightningModule) -> Mapping[str, Tensor]:
        values, self._values = self._values, {}
        by_size: dict[int, list[tuple[str, str]]] = {}
        for key, sample in self._samples.items():
            by_size.setdefault(len(sample), []).append(key)
        for keys in by_size.values():  # one sort for all layers
            together = stats.percentiles(torch.stack([self._samples[key] for key in keys]))
            for name in [name for name in self.statistics if name in together]:
                for (place, layer), value in zip(keys, together[name].unbind(), strict=True):
                    values[f"{place}_{name}/{layer}"] = value
        return values

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        self.watch(module, batches.training, step)
        loss_of(module, batches.training)
        self.release()
        return self.collect(module)

    def record(self, loggers: Sequence[Logger], values: Mapping[str, float], step: int) -> None:
        super().record(loggers, values, step)
        samples, self._samples = self._samples, {}
        if not samples or self.histogram_every_n_steps is None or step % self.histogram_every_n_steps:
            return
        sizes = [len(sample) for sample in samples.values()]
        on_host = torch.cat(list(samples.values())).cpu().split(sizes)  # one copy for all
        for logger in loggers:
            if hasattr(logger.experiment, "add_histogram"):
                for (place, layer), sample in zip(samples, on_host, strict=True):
                    sample = sample[sample.isfinite()]
                    if len(sample):  # a diverged network may have none
                        logger.experiment.add_histogram(f"{place}/{layer}", sample, step, bins=64)
