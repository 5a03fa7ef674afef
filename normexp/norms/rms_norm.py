"""RMSNorm: division by the root mean square, without centering."""

from torch import Tensor

from normexp.norms import functional
from normexp.norms.base import Affine, Norm


class RMSNorm(Norm):
    """y = x / sqrt(mean(x^2) + eps) * weight, over `channel_dim` and every axis after it.

    Shape: as LayerNorm. The paper has a gain and no shift, hence `affine=gain` in `configs/norm/rmsnorm.yaml`.
    Source: Zhang, Sennrich 2019, Root Mean Square Layer Normalization.
    """

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = 1e-5,
        affine: Affine = "gain",
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine=affine)

    def normalize(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight, self.bias, eps=self.eps)
