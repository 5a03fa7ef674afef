"""Sites: the places of a model where monitors measure and whose names stand in every tag and table."""

from typing import Literal, NamedTuple

from torch import nn


class Site(NamedTuple):
    """One measuring place. Within one kind, names are unique and sort alphabetically in forward order.

    kind "linear" is a linear map (dense layer or convolution), "residual" the residual stream, read at an
    ``nn.Identity`` that the stream passes through. The same sites exist under every norm.
    """

    layer: str
    kind: Literal["norm", "activation", "linear", "residual"]
    module: nn.Module
