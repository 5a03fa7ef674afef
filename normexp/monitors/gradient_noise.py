"""Gradient noise scale: the batch size at which the noise of a batch's gradient equals its signal."""

from collections.abc import Mapping

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from pytorch_lightning import LightningModule
from torch import Tensor

from normexp.monitors.base import Monitor
from normexp.monitors.batches import Batches
from normexp.monitors.guard import gradients_of, loss_of, trained_parameters


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
    gives nan.
    """

    def __init__(self, *, every_n_steps: int, chunks: int = 8) -> None:
        super().__init__(every_n_steps=every_n_steps)
        if chunks < 2:
            raise ValueError(f"chunks={chunks}: the noise is seen between chunks; use at least 2")
        self.chunks = chunks

    def keys(self) -> set[str]:
        return {"gradient_noise", "gradient_signal", "gradient_noise_scale"}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        parameters = trained_parameters(module)
        batch_size = leading_size(batches.training)
        chunks = min(self.chunks, batch_size // 2)  # at least two samples each, for batch statistics
        noise = signal = torch.tensor(float("nan"))
        if chunks >= 2:
            size = batch_size // chunks
            gradients = []
            for start in range(0, chunks * size, size):
                loss = loss_of(module, rows_of(batches.training, start, start + size))
                gradients.append(torch.cat([g.flatten() for g in gradients_of(loss, parameters)]))
            stacked = torch.stack(gradients)  # (chunks, P)
            noise, signal = noise_and_signal((stacked**2).sum(-1), (stacked.mean(0) ** 2).sum(), size)
        return {
            "gradient_noise/network": noise,
            "gradient_signal/network": signal,
            "gradient_noise_scale/network": noise / signal,
        }


def leading_size(batch: object) -> int:
    """Number of samples in a batch: the size of the first axis of its tensors.

    Raises ValueError with one line if they differ there: then some tensor has no row for each sample.
    """
    sizes: list[int] = []
    apply_to_collection(batch, Tensor, lambda x: sizes.append(len(x) if x.ndim else 0))
    if len(set(sizes)) != 1:
        raise ValueError(
            f"batch: its tensors have {', '.join(map(str, sizes))} rows, so it cannot be cut into samples; leave "
            "GradientNoiseScale out, or keep what is no sample out of the batch"
        )
    return sizes[0]


def rows_of(batch: object, start: int, stop: int) -> object:
    """Samples `start` to `stop` of every tensor of a batch."""
    return apply_to_collection(batch, Tensor, lambda x: x[start:stop])
