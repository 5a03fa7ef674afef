"""AdaNorm: LayerNorm whose gain is a decreasing function of its own output."""

from torch import Tensor

from normexp.norms import functional
from normexp.norms.base import EpsPosition, Norm
from normexp.norms.kernels import sample_kernels


class AdaNorm(Norm):
    """z = scale * (1 - k y) * y. y is the output of LayerNorm without gain and shift; 1 - k y passes no gradient.

    Shape: as LayerNorm. No gain and no shift are learned.
    Source: Xu et al. 2019, Understanding and Improving Layer Normalization (C is `scale` here). Their code divides by
    n - 1 and adds eps outside the root; set `correction=1` and `eps_position=outside` for that.

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
        k: float = 0.1,
        scale: float = 1.0,
    ) -> None:
        super().__init__(
            num_features, channel_dim, layer=layer, eps=eps, correction=correction, eps_position=eps_position
        )
        self.k, self.scale = k, scale

    def normalize(self, x: Tensor) -> Tensor:
        self.check_correction(x.shape[1:].numel())
        group_norm = sample_kernels.group_norm if self.native else functional.group_norm
        options = {"eps": self.eps, "correction": self.correction, "eps_position": self.eps_position}
        y = group_norm(x, 1, None, None, **options)
        return self.scale * (1 - self.k * y.detach()) * y

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, k={self.k}, scale={self.scale}"
