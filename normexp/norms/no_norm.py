"""No normalization, as a module, so that every arm of a comparison has the same sites."""

from torch import Tensor

from normexp.norms.base import Norm


class Identity(Norm):
    """y = x, of any shape."""

    def __init__(self, num_features: int, channel_dim: int = 1, *, layer: int = 1) -> None:
        super().__init__(num_features, channel_dim, layer=layer)

    def positions_apart(self, x: Tensor) -> bool:
        return True

    def normalize(self, x: Tensor) -> Tensor:
        return x
