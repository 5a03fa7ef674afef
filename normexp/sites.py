"""Sites: the places of a model where monitors measure. Tags and tables use their names."""

from typing import Literal, NamedTuple

from torch import nn


class Site(NamedTuple):
    """One measuring place. Within one kind, names are unique, and alphabetical order is forward order.

    Kind "linear" is a linear map (dense layer or convolution). Kind "residual" is the residual stream, read at an
    ``nn.Identity`` in the stream. The same sites exist under every norm.
    """

    layer: str
    kind: Literal["norm", "activation", "linear", "residual"]
    module: nn.Module
