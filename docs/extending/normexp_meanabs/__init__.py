"""MeanAbs: a norm that divides by the mean magnitude."""

from torch import Tensor

from normexp.norms import Norm, functional


class MeanAbs(Norm):
    """y = x / (mean |x| + eps) * weight + bias over C and every axis after it."""

    def __init__(self, num_features: int, channel_dim: int = 1, *, layer: int = 1, eps: float = 1e-5):
        super().__init__(num_features, channel_dim, layer=layer, eps=eps, affine="trained")

    def normalize(self, x: Tensor) -> Tensor:
        size = x.abs().mean(list(range(1, x.dim())), keepdim=True)
        return functional.affine(x / (size + self.eps), self.weight, self.bias)
