"""Initial weights of a transformer."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import nn

from normexp.arguments import require_choice
from normexp.models.initialization import WeightNorm

TransformerInitialization = Literal["gpt2", "xavier"]


@dataclass(frozen=True)
class TransformerWeights:
    """Makes initialized linear maps and embeddings. Biases start at 0.

    - ``gpt2`` (Radford et al. 2019): entries N(0, 0.02^2). The residual stream adds up 2 * depth maps, so the standard
      deviation of those maps is divided by sqrt(2 * depth).
    - ``xavier`` (as in Xiong et al. 2020, arXiv:2002.04745): entries N(0, 2 / (fan_in + fan_out)), where queries, keys
      and values count as three maps; tokens N(0, 1).

    Learned positions are N(0, 0.02^2) in both.
    """

    initialization: TransformerInitialization
    depth: int
    weight_norm: WeightNorm | None

    def __post_init__(self):
        require_choice("initialization", self.initialization, get_args(TransformerInitialization))

    def linear(self, fan_in: int, fan_out: int, *, parts: int = 1, to_stream: bool = False) -> nn.Module:
        """A dense layer. ``parts`` is the number of equal maps that its rows hold."""
        module = nn.Linear(fan_in, fan_out)
        if self.initialization == "xavier":
            for part in module.weight.detach().chunk(parts):
                nn.init.xavier_normal_(part)
        else:
            nn.init.normal_(module.weight, std=0.02 / math.sqrt(2 * self.depth) if to_stream else 0.02)
        nn.init.zeros_(module.bias)
        return module if self.weight_norm is None else self.weight_norm(module)

    def token_embedding(self, vocabulary: int, width: int) -> nn.Embedding:
        module = nn.Embedding(vocabulary, width)
        nn.init.normal_(module.weight, std=1.0 if self.initialization == "xavier" else 0.02)
        return module

    def positions(self, tokens: int, width: int) -> nn.Parameter:
        return nn.Parameter(nn.init.normal_(torch.empty(tokens, width), std=0.02))  # (T, C)
