"""The learned gain and shift of a norm, without its statistics."""

from torch import Tensor

from normexp.norms import functional
from normexp.norms.base import Affine, Norm


class AffineOnly(Norm):
    """y = x * weight + bias, per channel; any shape."""

    def __init__(
        self, num_features: int, channel_dim: int = 1, *, layer: int = 1, affine: Affine = "trained"
    ) -> None:
        super().__init__(num_features, channel_dim, layer=layer, affine=affine)

    def positions_apart(self, x: Tensor) -> bool:
        return True

    def normalize(self, x: Tensor) -> Tensor:
        return functional.affine(x, self.weight, self.bias)
