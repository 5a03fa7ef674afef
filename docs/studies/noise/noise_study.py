"""Is it noise, shift, or evaluation? Layers whose outputs are displaced, and three ways to test them."""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from pytorch_lightning import Callback
from torch import Tensor, nn

from normexp.norms import BatchNorm, NoisyBatchNorm, evaluation_mode, recompute_population_statistics

STILL = {"mean_range": 0.0, "scale_max": 1.0, "mean_spread": 0.0, "scale_spread": 0.0}  # of a NoisyBatchNorm
TRAINED_ON = 10_000  # images of the training split for statistics anew


class Displaced(BatchNorm):
    """y = z + (s - 1) (z - c) + m u while training: z = BatchNorm(x), c = 0, u = 1. With `normalize: false` z = x, and
    c and u are the mean and deviation of each unit in the batch, through which no gradient flows. Shape: as BatchNorm.

    m ~ U(-.1, .1) + mean, s ~ N(scale, .1^2) for each value, as in `batchnorm_noisy` (Santurkar et al. 2018). Mean and
    scale of a channel lie at a place p in [-1, 1]^2: mean = .5 p1, scale = 1 + .25 (p2 + 1) / 2. With `pace: null` p is
    drawn anew at every step; else it walks, each step normal with deviation `pace`, reflected at the ends, so at any
    step it is spread as if drawn anew. With .1 it has mostly forgotten its place after 100 steps. With 0 it stays.

    In eval mode the spread of single values is off. A place that stays or walks is kept: later layers have followed it.
    One that is drawn anew is replaced by its mean, scale 1.125.
    """

    still = False  # whether it displaces as in eval mode, with statistics of the batch

    def __init__(
        self, num_features: int, channel_dim: int = 1, *, layer: int = 1, eps: float = 1e-5, seed: int = 0,
        normalize: bool = True, pace: float | None = None, mean_range: float = 0.5, scale_max: float = 1.25,
        mean_spread: float = 0.1, scale_spread: float = 0.1,
    ) -> None:  # fmt: skip
        affine = "trained" if normalize else "none"
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine=affine)
        self.seed, self.normalize_, self.pace = seed, normalize, pace
        self.mean_range, self.scale_max = mean_range, scale_max
        self.mean_spread, self.scale_spread = mean_spread, scale_spread
        first = torch.empty(2, num_features).uniform_(-1, 1, generator=self.generator(torch.device("cpu"), 0))
        self.register_buffer("position", torch.zeros_like(first) if pace is None else first)

    def generator(self, device: torch.device, step: int) -> torch.Generator:
        """Random numbers of this layer at a step, apart from torch's own stream."""
        name = f"{self.seed} {self.layer} {self.num_features} {step}"
        return torch.Generator(device).manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:7]))

    def from_batch(self, x: Tensor, groups: int) -> Tensor:
        z, center, unit = x, 0.0, 1.0
        if self.normalize_:
            z = super().from_batch(x, groups)
        else:
            mean, var = self.statistics(x.detach())
            self.track(mean, var, x)
            center, unit = self.along(mean, x), self.along(var.sqrt(), x)
        if x.is_meta:  # only shapes are computed
            return z
        if self.still:
            mean, scale = (self.along(values, x) for values in self.moments())
            return z + (scale - 1) * (z - center) + mean * unit
        generator = self.generator(x.device, int(self.num_batches_tracked))
        mean, scale = self.moved(generator)
        of_value = torch.empty_like(x, dtype=torch.float32)
        m = self.along(mean, x) + self.mean_spread * of_value.uniform_(-1, 1, generator=generator)
        s = self.along(scale, x) + self.scale_spread * of_value.normal_(generator=generator)
        return z + (s - 1) * (z - center) + m * unit

    def from_population(self, x: Tensor) -> Tensor:
        mean, scale = (self.along(values, x) for values in self.moments())
        if self.normalize_:
            return scale * super().from_population(x) + mean
        center, unit = self.along(self.running_mean, x), self.along(self.running_var.sqrt(), x)
        return x + (scale - 1) * (x - center) + mean * unit

    def moved(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Mean and scale of each channel at the next place."""
        step = torch.empty_like(self.position)
        if self.pace is None:
            return self.moments(step.uniform_(-1, 1, generator=generator))
        places = (self.position + self.pace * step.normal_(generator=generator) + 1) % 4
        self.position.copy_(1 - (places - 2).abs())  # reflected at -1 and 1
        return self.moments()

    def moments(self, place: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mean, scale = self.position if place is None else place
        return self.mean_range * mean, 1 + (self.scale_max - 1) * (scale + 1) / 2

    @staticmethod
    def along(values: Tensor, x: Tensor) -> Tensor:
        return values.view(1, -1, *[1] * (x.dim() - 2))


@contextlib.contextmanager
def undisplaced(model: nn.Module) -> Iterator[None]:
    """In this context layers displace as in eval mode, also with statistics of the batch."""
    layers = [m for m in model.modules() if isinstance(m, NoisyBatchNorm | Displaced)]
    before = [{name: getattr(layer, name) for name in STILL} for layer in layers]
    for layer in layers:
        vars(layer).update({"still": True} if isinstance(layer, Displaced) else STILL)
    yield
    for layer, values in zip(layers, before, strict=True):
        vars(layer).update(values | ({"still": False} if isinstance(layer, Displaced) else {}))


class ThreeTests(Callback):
    """After the last step, accuracy on validation and test: `mixed`, in eval mode with statistics that displaced layers
    gave, as running ones are; `anew`, with statistics as eval mode itself gives them; `displaced`, with displacement on
    and statistics of the batch. It leaves the network as it was."""

    def on_train_end(self, trainer: Any, module: Any) -> None:
        data, precision = trainer.datamodule, trainer.precision_plugin
        before = {name: buffer.clone() for name, buffer in module.named_buffers()}

        def batches(split: str, limit: int | None = None) -> Iterator[Any]:
            return map(precision.convert_input, data.evaluation_loader(split, limit))

        def test(name: str) -> None:
            for split in ("val", "test"):
                right = torch.stack([
                    torch.stack([(module.evaluated(x).argmax(-1) == y).sum(), y.new_tensor(y.numel())])
                    for x, y in batches(split)
                ]).sum(0).tolist()  # fmt: skip
                for logger in trainer.loggers:
                    logger.log_metrics({f"{split}_{name}/accuracy": right[0] / right[1]}, trainer.global_step)

        with evaluation_mode(module), torch.no_grad(), precision.val_step_context():
            recompute_population_statistics(module.model, batches("train", TRAINED_ON))
            test("mixed")
            with undisplaced(module):
                recompute_population_statistics(module.model, batches("train", TRAINED_ON))
                test("anew")
            for layer in module.model.modules():
                if getattr(layer, "batch_statistics", False):
                    layer.train()
            test("displaced")
        for name, buffer in module.named_buffers():
            buffer.copy_(before[name])
