"""Initial weights of dense layers and convolutions. Biases start at 0.

Weights are drawn from torch's global generator while the model is built. Norms draw nothing, so one seed gives
bit-identical weights under every norm.
"""

from collections.abc import Callable
from typing import Literal, get_args

from torch import nn

from normexp.arguments import require_choice

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
