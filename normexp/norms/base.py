"""What every normalization layer has: its size, its channel axis, its learned gain and shift."""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from normexp.format import pluralize, require_at_least, require_choice

DEFAULT_EPS = 1e-5  # of every norm that has one, and of a run: `eps` of configs/train.yaml
Affine = Literal["trained", "frozen", "none", "gain", "bias"]
EpsPosition = Literal["inside", "outside"]
Deviation = Literal["l2", "l1", "linf"]


def check_kept(argument: str, value: float) -> None:
    """Raise a ValueError unless `value`, the part of a running estimate that is kept, lies between 0 and 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{argument}={value}: the part of the running estimate that is kept; use 0 to 1")


@contextlib.contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """In this context a module is in eval mode. Afterwards each layer has its own mode again: a network may keep a part
    in eval mode while it trains."""
    modes = [(layer, layer.training) for layer in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for layer, mode in modes:
            layer.training = mode


class Norm(nn.Module):
    """Base of the norms: `norm(num_features, channel_dim)` builds a layer, `layer(x)` keeps shape and dtype.

    Attributes:
        num_features: C, the size of the channel axis. Gain and shift hold one value per channel in every norm.
        channel_dim: 1 for (N, C) and (N, C, H, W), -1 for tokens (N, T, C).
        eps: keeps the division finite.
        eps_position: `inside` adds eps to the variance, sqrt(var + eps); `outside` to the root, sqrt(var) + eps.
        correction: 0 divides the sum of squares by n, 1 by n - 1. `torch.var` uses the same word.
        affine: the gain `weight` starts at 1, the shift `bias` at 0. Both are `trained`, both stay `frozen` at that
            start, there are `none`, or only one exists and is trained: `gain` or `bias`.
        layer: depth of the layer in the network, counted from 1.
        batch_statistics: while training, the output of one sample depends on the other samples. Such a layer
            computes another function in eval mode; every other layer gives the same bits in both modes.
        pointwise: each output depends on the input at its own position alone.
        mixes_tokens: statistics run over the token axis, so a causal model would see the future.
        native: True runs torch's native kernels, False the formula of `functional`. Both give the same values
            up to rounding, in every memory layout. A mean of r deviations costs float32 a relative error of about
            1e-7 r: the third digit at r = 10,000, all digits at ten million, where neighboring inputs are equal
            numbers. Only the formula has forward-mode derivatives. It may be set at any time.
    """

    batch_statistics = False
    mixes_tokens = False
    pointwise = False

    def __init__(
        self,
        num_features: int,
        channel_dim: int = 1,
        *,
        layer: int = 1,
        eps: float = 0.0,
        correction: int = 0,
        eps_position: EpsPosition = "inside",
        affine: Affine = "none",
    ) -> None:
        super().__init__()
        require_at_least("num_features", num_features, 1)
        if channel_dim not in (1, -1):
            raise ValueError(
                f"channel_dim={channel_dim}: unknown layout; use 1 for (N, C, ...) or -1 for (N, T, C)"
            )
        require_at_least("layer", layer, 1)
        require_at_least("eps", eps, 0)
        if correction not in (0, 1):
            raise ValueError(
                f"correction={correction}: no such variance; use 0 (divide by n) or 1 (by n - 1)"
            )
        require_choice("eps_position", eps_position, get_args(EpsPosition))
        require_choice("affine", affine, get_args(Affine))
        self.num_features, self.channel_dim, self.layer = num_features, channel_dim, layer
        self.eps, self.correction, self.eps_position, self.affine = eps, correction, eps_position, affine
        self.native = True
        trained = affine != "frozen"
        has_weight, has_bias = affine not in ("none", "bias"), affine not in ("none", "gain")
        self.weight = nn.Parameter(torch.ones(num_features), requires_grad=trained) if has_weight else None
        self.bias = nn.Parameter(torch.zeros(num_features), requires_grad=trained) if has_bias else None

    @property
    def formula(self) -> dict[str, Any]:
        """The options that the formulas of `functional` and the kernels take."""
        return {"eps": self.eps, "correction": self.correction, "eps_position": self.eps_position}

    def place(self, site: str) -> None:
        """Learn the name of the layer's site, such as `layer02_attention`, before training. Most layers have no use for
        it. A transformer tells each of its norms that has this method."""

    def forward(self, x: Tensor) -> Tensor:
        self.check_size(x)
        if not x.numel() and self.batch_statistics and self.training:
            raise ValueError(f"x.shape={tuple(x.shape)}: an empty batch has no statistics; leave it out")
        try:
            y = self.normalize(x) if self.channel_dim == 1 else self.normalize_tokens(x)
            return y.to(x.dtype)
        except RuntimeError as error:
            if "transform, the function provided attempted to call in-place" not in str(error):
                raise
            raise ValueError(
                f"{type(self).__name__}: moves its running statistics, which a transform of torch.func cannot; "
                "call eval() first, or take torch.autograd.grad"
            ) from None

    def normalize(self, x: Tensor) -> Tensor:
        """The layer for channels at axis 1, (N, C) or (N, C, ...)."""
        raise NotImplementedError

    def normalize_tokens(self, x: Tensor) -> Tensor:
        """The layer for channels at the last axis, (N, T, C): every token is a sample."""
        return self.normalize(x.flatten(0, -2)).view(x.shape)  # (N T, C)

    def check_size(self, x: Tensor) -> None:
        if x.dim() < 2 or x.shape[self.channel_dim] != self.num_features:
            raise ValueError(
                f"x.shape={tuple(x.shape)}: expected {pluralize(self.num_features, 'feature')} at axis "
                f"{self.channel_dim}; build the norm with that num_features or set its channel_dim"
            )

    def check_correction(self, n: int) -> None:
        if n <= self.correction:
            raise ValueError(
                f"correction={self.correction}: the one value to normalize has no unbiased variance; "
                "use correction=0 or more features"
            )

    def extra_repr(self) -> str:
        """Every argument that the layer keeps as a plain value."""
        values = {name: getattr(self, name, None) for name in inspect.signature(type(self)).parameters}
        plain = {name: x for name, x in values.items() if isinstance(x, int | float | str | tuple)}
        return ", ".join(f"{name}={x}" for name, x in plain.items())
