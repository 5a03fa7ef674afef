"""Causal transformer over characters."""

import warnings
from collections.abc import Callable

from torch import Tensor, nn

from normexp.models.layers import Activation, WeightNorm
from normexp.models.sites import Site, layer_name
from normexp.models.transformer_stack import (
    TransformerInitialization,
    TransformerNormPosition,
    TransformerStack,
    TransformerWeights,
)


class GPT(nn.Module):
    """Token and position embeddings, a stack of causal blocks and a linear map to the next character's logits.

    As in Radford et al. 2019 (GPT-2), except that the output map has its own weights and a bias.

    A norm with statistics over tokens lets each position see later ones, past the causal mask. With such a norm the
    model warns once and sets ``leaks_future``: its training loss does not measure prediction.

    Shape: tokens (N, T), int64, to logits (N, T, num_classes), for T up to the context. ``mask`` (N, T) is True at real
    tokens: padding counts in no statistic and no token attends to it. The logits of padding mean nothing.

    Args:
        input_shape: (T,), the context in characters.
        num_classes: size of the vocabulary.
        norm: factory, called as ``norm(num_features, channel_dim=-1, layer=k)``; k counts blocks from 1.
        norm_position: pre, post or sandwich; see ``Residual``.
        qk_norm: also normalize queries and keys in each head.
        mlp_ratio: hidden width of the feed-forward branch in units of ``width``.
        dropout: on the embedding, the attention weights and the output of each branch.
        initialization: see ``TransformerWeights``.
        weight_norm: reparametrizes each linear map; None does nothing.

    Raises:
        ValueError: heads that do not divide the width, a size below 1, a dropout outside [0, 1), an unknown choice.
    """

    accepts = "text"

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        depth: int,
        width: int,
        heads: int,
        norm_position: TransformerNormPosition = "pre",
        qk_norm: bool = False,
        mlp_ratio: int = 4,
        activation: Activation = "gelu",
        dropout: float = 0.0,
        initialization: TransformerInitialization = "gpt2",
        weight_norm: WeightNorm | None = None,
    ):
        super().__init__()
        (context,) = input_shape
        weights = TransformerWeights(initialization, depth, weight_norm)
        # First, because it checks the sizes.
        self.stack = TransformerStack(
            context,
            norm,
            weights,
            width=width,
            heads=heads,
            mlp_ratio=mlp_ratio,
            activation=activation,
            norm_position=norm_position,
            qk_norm=qk_norm,
            dropout=dropout,
            causal=True,
        )
        self.embedding = weights.token_embedding(num_classes, width)
        self.output = weights.linear(width, num_classes)

        norms = [site.module for site in self.sites() if site.kind == "norm"]
        leaking = sorted(
            {type(module).__name__ for module in norms if getattr(module, "mixes_tokens", False)}
        )
        self.leaks_future = bool(leaking)
        if leaking:
            warnings.warn(
                f"gpt with {', '.join(leaking)}: its statistics run over tokens, so a position sees later ones and "
                "the loss flatters the model; use norm=layernorm or norm=rmsnorm",
                stacklevel=2,
            )

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.stack(self.embedding(tokens), mask)  # (N, T, width)
        return self.output(x)  # (N, T, num_classes)

    def sites(self) -> list[Site]:
        last = len(self.stack.blocks) + 1
        return [*self.stack.sites(), Site(layer_name(last, last, "output"), "linear", self.output)]
