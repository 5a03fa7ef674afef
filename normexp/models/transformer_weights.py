"""Initial weights of transformers."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import nn

from normexp.arguments import require_choice
from normexp.models.layers import WeightNorm

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
    branch_gain: float = 1.0  # factor on values and on the other maps of a branch; Sub-LN has one

    def __post_init__(self):
        require_choice("initialization", self.initialization, get_args(TransformerInitialization))

    def linear(
        self,
        fan_in: int,
        fan_out: int,
        *,
        parts: int = 1,
        stream: int | None = None,
        gained: slice | None = None,
    ) -> nn.Module:
        """A dense layer. ``parts`` is the number of equal maps that its rows hold; ``stream`` the block k, from 1, of a
        map into the residual stream; ``gained`` the rows that ``branch_gain`` multiplies."""
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
        if gained is not None and self.branch_gain != 1:
            module.weight.detach()[gained].mul_(self.branch_gain)
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
