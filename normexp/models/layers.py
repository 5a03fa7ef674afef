"""What the networks are made of: initialized linear maps and embeddings, activations as modules, one layer of each."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from normexp.format import require_choice
from normexp.models.sites import Site

Initialization = Literal["he", "xavier", "orthogonal", "small_gaussian", "dirac"]
WeightNorm = Callable[[nn.Module], nn.Module]

SMALL_GAUSSIAN_STD = 0.1


def initialized(
    module: nn.Linear | nn.Conv2d, initialization: Initialization, weight_norm: WeightNorm | None = None
) -> nn.Module:
    """Initialize ``module``, then hand it to ``weight_norm`` if there is one.

    Entries are drawn from N(0, std^2). fan_in and fan_out count the positions of the kernel:

    - ``he``: std^2 = 2 / fan_in, so that ReLU keeps the mean square (He et al. 2015, arXiv:1502.01852)
    - ``xavier``: std^2 = 2 / (fan_in + fan_out) (Glorot and Bengio 2010)
    - ``small_gaussian``: std = 0.1 for every width (Ioffe and Szegedy 2015 give no number)

    ``orthogonal`` draws a matrix (fan_out, fan_in) with orthonormal rows or columns (Saxe et al. 2013,
    arXiv:1312.6120).

    ``dirac`` is ``he``, but the first fan_in filters of a convolution pass on its channels (Jordan 2024,
    arXiv:2404.00498).
    """
    require_choice("initialization", initialization, get_args(Initialization))
    if initialization in ("he", "dirac"):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if initialization == "dirac" and isinstance(module, nn.Conv2d):
            nn.init.dirac_(module.weight[: module.in_channels])
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


TransformerInitialization = Literal["gpt2", "xavier", "plain", "scaled", "zero_projection"]


@dataclass(frozen=True)
class TransformerWeights:
    """Makes initialized linear maps and embeddings. Biases, where there are any, start at 0.

    - ``gpt2`` (Radford et al. 2019): entries N(0, 0.02^2). The residual stream adds up 2 * depth maps, so the standard
      deviation of those maps is divided by sqrt(2 * depth).
    - ``xavier`` (as in Xiong et al. 2020, arXiv:2002.04745): entries N(0, 2 / (fan_in + fan_out)), where queries, keys
      and values count as three maps, and so do the halves of a gated MLP; tokens N(0, 1).
    - ``plain``: N(0, 0.02^2) everywhere, as transformers starts Llama, Qwen and Gemma (``initializer_range``).
    - ``scaled``: as plain, but maps of block k into the stream are divided by sqrt(2 k), k from 1, as OLMo-core
      (``llama_depth``) and torchtitan (``depth_init``).
    - ``zero_projection``: maps into the stream start at 0, so each block starts as the identity; other maps are uniform
      with standard deviation 1 / sqrt(fan_in), tokens N(0, 1), the map to the logits N(0, 0.001^2). As nanochat.

    Learned positions are N(0, 0.02^2) in all.
    """

    initialization: TransformerInitialization
    depth: int
    weight_norm: WeightNorm | None
    bias: bool = True

    def __post_init__(self):
        require_choice("initialization", self.initialization, get_args(TransformerInitialization))

    def linear(self, fan_in: int, fan_out: int, *, parts: int = 1, stream: int | None = None) -> nn.Module:
        """A dense layer. ``parts`` is the number of equal maps that its rows hold; ``stream`` the block k, from 1, of a
        map into the residual stream."""
        module = nn.Linear(fan_in, fan_out, bias=self.bias)
        if self.initialization == "xavier":
            for part in module.weight.detach().chunk(parts):
                nn.init.xavier_normal_(part)
        elif self.initialization == "zero_projection":
            bound = 0.0 if stream else math.sqrt(3 / fan_in)
            nn.init.uniform_(module.weight, -bound, bound)
        else:
            maps = {"gpt2": 2 * self.depth, "scaled": 2 * (stream or 0), "plain": 1}[self.initialization]
            nn.init.normal_(module.weight, std=0.02 / math.sqrt(maps) if stream else 0.02)
        return self._finished(module)

    def to_logits(self, width: int, classes: int) -> nn.Module:
        """The last map."""
        if self.initialization != "zero_projection":
            return self.linear(width, classes)
        module = nn.Linear(width, classes, bias=self.bias)
        nn.init.normal_(module.weight, std=0.001)
        return self._finished(module)

    def _finished(self, module: nn.Linear) -> nn.Module:
        if module.bias is not None:
            nn.init.zeros_(module.bias)
        return module if self.weight_norm is None else self.weight_norm(module)

    def token_embedding(self, vocabulary: int, width: int) -> nn.Embedding:
        module = nn.Embedding(vocabulary, width)
        large = self.initialization in ("xavier", "zero_projection")
        nn.init.normal_(module.weight, std=1.0 if large else 0.02)
        return module

    def positions(self, tokens: int, width: int) -> nn.Parameter:
        return nn.Parameter(nn.init.normal_(torch.empty(tokens, width), std=0.02))  # (T, C)
