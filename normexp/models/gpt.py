"""Causal transformer over characters."""

import warnings
from collections.abc import Callable
from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from normexp.format import require_at_least, require_choice
from normexp.models.attention import AttentionOptions, QKNormOver, QKNormPlace
from normexp.models.layers import TransformerInitialization, TransformerWeights, WeightNorm
from normexp.models.sites import Site, layer_name
from normexp.models.transformer_stack import (
    EmbeddingScale,
    TransformerActivation,
    TransformerNormPosition,
    TransformerStack,
)

Position = Literal["learned", "rope"]


class NGrams(nn.Module):
    """The sum of vectors for the last 2, ..., ``longest`` tokens at each position, a table of ``rows`` vectors for each
    length. A hash of the tokens names their row, so some share one. Token 0 stands before the first.

    So the first layer already knows the last characters, without attention: the n-gram embeddings of Engram (Cheng et
    al. 2026, arXiv:2601.07372), without its gate. Shape: tokens (N, T) to (N, T, width).
    """

    MULTIPLIER, PRIME = 1_000_003, 2**31 - 1  # their product fits int64

    def __init__(self, longest: int, rows: int, width: int):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(longest - 1))
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        total, key = tokens.new_zeros(()), tokens  # (), (N, T)
        for back, table in enumerate(self.tables, start=1):
            earlier = F.pad(tokens, (back, 0))[:, :-back]
            key = (key * self.MULTIPLIER + earlier) % self.PRIME
            total = total + table(key % table.num_embeddings)
        return total


class GPT(nn.Module):
    """Token embeddings, a stack of causal blocks and a linear map to the next character's logits.

    By default as in Radford et al. 2019 (GPT-2), except that the output map has its own weights and a bias. Options
    make the blocks of later models; `preset=llama`, qwen3, gemma3, olmo2, gptoss, nanochat set theirs together.

    A norm with statistics over tokens lets each position see later ones, past the causal mask. With such a norm the
    model warns once and sets ``leaks_future``: its training loss does not measure prediction.

    Shape: tokens (N, T), int64, to logits (N, T, num_classes), for T up to the context.

    Args:
        input_shape: (T,), the context in characters.
        num_classes: size of the vocabulary.
        norm: factory, called as ``norm(num_features, channel_dim=-1, layer=k)``; k counts blocks from 1.
        position: learned vectors, added to the tokens, or the rotation of queries and keys, ``attention.rotated``.
        rope_base: of the rotation.
        norm_position: pre, post, sandwich, output or keel; see ``Residual``.
        depth_scaling: divides the norms of block k by sqrt(k), for pre and output.
        qk_norm: also normalize queries and keys; see ``Attention`` for their options.
        attention_scale: factor on 1 / sqrt(d).
        attention_sink: a learned logit in each head's softmax.
        mlp_ratio: hidden width of the feed-forward branch in units of ``width``.
        activation: of the feed-forward branch; swiglu and geglu are gated, with a third map.
        dropout: on the embedding, the attention weights and the output of each branch.
        bias: whether linear maps have biases.
        embedding_norm: normalizes the embedded tokens.
        final_norm: None is one unless each block ends in a norm.
        embedding_scale: factor on the embedding; see ``TransformerStack``.
        tied_embedding: the output map has the weights of the token embedding (Press, Wolf 2017, arXiv:1608.05859).
        ngrams: longest sequence of tokens with a vector of its own, added to that of the token; see ``NGrams``.
        ngram_rows: of the table of each length from 2.
        initialization: see ``TransformerWeights``.
        weight_norm: reparametrizes each linear map; None does nothing.

    Raises:
        ValueError: heads that do not divide the width, a size below 1, a dropout outside [0, 1), an unknown choice,
            options that exclude each other.
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
        position: Position = "learned",
        rope_base: float = 10_000.0,
        depth_scaling: bool = False,
        qk_norm: bool = False,
        qk_norm_over: QKNormOver = "head",
        qk_norm_place: QKNormPlace = "before",
        attention_scale: float = 1.0,
        attention_sink: bool = False,
        mlp_ratio: float = 4,
        activation: TransformerActivation = "gelu",
        dropout: float = 0.0,
        bias: bool = True,
        embedding_norm: bool = False,
        embedding_scale: EmbeddingScale = "none",
        tied_embedding: bool = False,
        ngrams: int = 1,
        ngram_rows: int = 32_768,
        final_norm: bool | None = None,
        initialization: TransformerInitialization = "gpt2",
        weight_norm: WeightNorm | None = None,
    ):
        super().__init__()
        (context,) = input_shape
        require_choice("position", position, get_args(Position))
        require_at_least("ngrams", ngrams, 1)
        require_at_least("ngram_rows", ngram_rows, 1)
        if tied_embedding and weight_norm is not None:
            raise ValueError("tied_embedding=true: a table has no weight_norm; use weight_norm=null")
        weights = TransformerWeights(initialization, depth, weight_norm, bias)
        # First, because it checks the sizes.
        self.stack = TransformerStack(
            context,
            norm,
            weights,
            AttentionOptions(
                heads=heads, causal=True, dropout=dropout, rope_base=rope_base if position == "rope" else None,
                qk_norm=qk_norm, qk_norm_over=qk_norm_over, qk_norm_place=qk_norm_place,
                scale=attention_scale, sink=attention_sink,
            ),
            width=width,
            mlp_ratio=mlp_ratio,
            activation=activation,
            norm_position=norm_position,
            depth_scaling=depth_scaling,
            embedding_norm=embedding_norm,
            final_norm=final_norm,
            embedding_scale=embedding_scale,
            learned_positions=position == "learned",
        )  # fmt: skip
        self.embedding = weights.token_embedding(num_classes, width)
        self.output = weights.to_logits(width, num_classes)
        if tied_embedding:
            self.output.weight = self.embedding.weight
        self.ngrams = NGrams(ngrams, ngram_rows, width) if ngrams > 1 else None

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

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        x = x if self.ngrams is None else x + self.ngrams(tokens)
        return self.output(self.stack(x))  # (N, T, width) to (N, T, num_classes)

    def sites(self) -> list[Site]:
        last = len(self.stack.blocks) + 1
        return [*self.stack.sites(), Site(layer_name(last, last, "output"), "linear", self.output)]
