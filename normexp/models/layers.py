"""What the plain networks are made of: initialized linear maps, activations as modules, and one layer of each."""

from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn import functional as F

from normexp.arguments import require_choice
from normexp.models.sites import Site

Initialization = Literal["he", "xavier", "orthogonal", "small_gaussian"]
WeightNorm = Callable[[nn.Module], nn.Module]

SMALL_GAUSSIAN_STD = 0.1


def linear_map(
    module: nn.Linear | nn.Conv2d, initialization: Initialization, weight_norm: WeightNorm | None = None
) -> nn.Module:
    """Initialize ``module``, then hand it to ``weight_norm`` if there is one.

    Entries are drawn from N(0, std^2). fan_in and fan_out count the positions of the kernel:

    - ``he``: std^2 = 2 / fan_in, so that ReLU keeps the mean square (He et al. 2015, arXiv:1502.01852)
    - ``xavier``: std^2 = 2 / (fan_in + fan_out) (Glorot and Bengio 2010)
    - ``small_gaussian``: std = 0.1 for every width (Ioffe and Szegedy 2015 give no number)

    ``orthogonal`` draws a matrix (fan_out, fan_in) with orthonormal rows or columns (Saxe et al. 2013,
    arXiv:1312.6120).
    """
    require_choice("initialization", initialization, get_args(Initialization))
    if initialization == "he":
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    elif initialization == "xavier":
        nn.init.xavier_normal_(module.weight)
    elif initialization == "orthogonal":
        nn.init.orthogonal_(module.weight)
    else:
        nn.init.normal_(module.weight, std=SMALL_GAUSSIAN_STD)
    nn.init.zeros_(module.bias)
    return module if weight_norm is None else weight_norm(module)


Activation = Literal["relu", "gelu", "tanh", "sigmoid", "identity", "silu", "relu2"]


class ReLUSquared(nn.Module):
    """``max(x, 0)^2`` (So et al. 2021, Primer, arXiv:2109.08668)."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x).square()


def make_activation(name: Activation) -> nn.Module:
    """A new module. ``identity`` makes the network linear, as in the theory of deep linear networks."""
    require_choice("activation", name, get_args(Activation))
    modules = {
        "relu": nn.ReLU,
        "gelu": nn.GELU,
        "tanh": nn.Tanh,
        "sigmoid": nn.Sigmoid,
        "identity": nn.Identity,
        "silu": nn.SiLU,
        "relu2": ReLUSquared,
    }
    return modules[name]()


NormPosition = Literal["pre_activation", "post_activation"]


class Layer(nn.Module):
    """``act(norm(W x))`` for pre_activation, as in the BatchNorm paper, ``norm(act(W x))`` for post_activation.

    Shape: (N, C, ...) to the shape that ``linear`` gives, (N, C', ...).
    """

    def __init__(
        self, linear: nn.Module, norm: nn.Module, activation: nn.Module, norm_position: NormPosition
    ):
        super().__init__()
        require_choice("norm_position", norm_position, get_args(NormPosition))
        self.linear = linear
        self.norm = norm
        self.activation = activation
        self.norm_position = norm_position

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        if self.norm_position == "pre_activation":
            return self.activation(self.norm(x))
        return self.norm(self.activation(x))

    def sites(self, layer: str) -> list[Site]:
        norm, activation = Site(layer, "norm", self.norm), Site(layer, "activation", self.activation)
        pre = self.norm_position == "pre_activation"
        return [Site(layer, "linear", self.linear), *([norm, activation] if pre else [activation, norm])]
