"""Sites: the places of a model where monitors measure. Tags and tables use their names."""

from typing import Literal, NamedTuple

from torch import nn


class Site(NamedTuple):
    """One measuring place. Within one kind, names are unique, and alphabetical order is forward order.

    kind "linear" is a linear map (dense layer or convolution), "residual" the residual stream, read at an
    ``nn.Identity`` that the stream passes through, "embedding" a table of vectors. The same sites
    exist under every norm.
    """

    layer: str
    kind: Literal["norm", "activation", "linear", "residual", "embedding"]
    module: nn.Module
