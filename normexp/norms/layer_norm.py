"""LayerNorm: the statistics of one sample, or of one token."""

from torch import Tensor

from normexp.norms import sample_kernels
from normexp.norms.base import Affine, EpsPosition, Norm


class LayerNorm(Norm):
    """y = (x - mean) / sqrt(var + eps) * weight + bias, over `channel_dim` and every axis after it.

    Shape: (N, C) over C; (N, C, H, W) over (C, H, W), equal to GroupNorm with one group; (N, T, C) over C.
    With `per_position`, over C alone at each position of an image (ConvNeXt's form).
    Source: Ba, Kiros, Hinton 2016, Layer Normalization; it divides by n (`correction=0`) and has no eps.

    Raises:
        ValueError: another number of features, or `correction=1` with one value to normalize.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = 1e-5,
        correction: int = 0,
        eps_position: EpsPosition = "inside",
        affine: Affine = "trained",
        per_position: bool = False,
    ) -> None:
        shared = {"eps": eps, "correction": correction, "eps_position": eps_position, "affine": affine}
        super().__init__(num_features, channel_dim, layer=layer, **shared)
        self.per_position = per_position

    def normalize(self, x: Tensor) -> Tensor:
        if self.per_position and x.dim() > 2:
            rows = x.movedim(1, -1)  # (N, C, H, W) -> (N, H, W, C)
            y = self.one_group(rows.flatten(0, -2))  # (N H W, C)
            return y.view(rows.shape).movedim(-1, 1)
        return self.one_group(x)

    def one_group(self, x: Tensor) -> Tensor:
        return sample_kernels.group_norm(
            x, 1, self.weight, self.bias, eps=self.eps, correction=self.correction,
            eps_position=self.eps_position, native=self.native,
        )  # fmt: skip
