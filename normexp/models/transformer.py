"""Transformer over image patches, for classification."""

from collections.abc import Callable

from torch import Tensor, nn

from normexp.format import require_at_least
from normexp.models.attention import AttentionOptions, QKNormOver
from normexp.models.layers import TransformerInitialization, TransformerWeights, WeightNorm
from normexp.models.sites import Site, layer_name
from normexp.models.transformer_stack import TransformerActivation, TransformerNormPosition, TransformerStack


class Transformer(nn.Module):
    """Patches as tokens, a stack of blocks, the mean over tokens and a linear map to the logits.

    Dosovitskiy et al. 2020, arXiv:2010.11929, with mean pooling instead of the class token (Beyer et al. 2022,
    arXiv:2205.01580).

    Shape: images (N, C, H, W) to logits (N, num_classes), through T = (H/p)(W/p) tokens of ``width`` features.

    Args:
        input_shape: (C, H, W).
        norm: factory, called as ``norm(num_features, channel_dim=-1, layer=k)``; k counts blocks from 1.
        patch_size: side p of a patch in pixels; None is a quarter of the height, so a square image has 16 patches.
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
        initialization: see ``TransformerWeights``.
        weight_norm: reparametrizes each linear map; None does nothing.

    Raises:
        ValueError: patches that do not tile the image, heads that do not divide the width, a size below 1, a dropout
            outside [0, 1), an unknown choice.
    """

    accepts = "image"

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        depth: int,
        width: int,
        heads: int,
        patch_size: int | None = None,
        norm_position: TransformerNormPosition = "pre",
        depth_scaling: bool = False,
        qk_norm: bool = False,
        qk_norm_over: QKNormOver = "head",
        attention_scale: float = 1.0,
        attention_sink: bool = False,
        mlp_ratio: float = 4,
        activation: TransformerActivation = "gelu",
        dropout: float = 0.0,
        bias: bool = True,
        embedding_norm: bool = False,
        final_norm: bool | None = None,
        initialization: TransformerInitialization = "gpt2",
        weight_norm: WeightNorm | None = None,
    ):
        super().__init__()
        channels, height, columns = input_shape
        self.patch_size = patch_size_for(height, columns, patch_size)
        tokens = (height // self.patch_size) * (columns // self.patch_size)

        weights = TransformerWeights(initialization, depth, weight_norm, bias)
        # First, because it checks the sizes.
        self.stack = TransformerStack(
            tokens,
            norm,
            weights,
            AttentionOptions(
                heads=heads, causal=False, dropout=dropout, qk_norm=qk_norm, qk_norm_over=qk_norm_over,
                scale=attention_scale, sink=attention_sink,
            ),
            width=width,
            mlp_ratio=mlp_ratio,
            activation=activation,
            norm_position=norm_position,
            depth_scaling=depth_scaling,
            embedding_norm=embedding_norm,
            final_norm=final_norm,
        )  # fmt: skip
        self.embedding = weights.linear(channels * self.patch_size**2, width)
        self.output = weights.to_logits(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        p = self.patch_size
        x = images.unflatten(3, (-1, p)).unflatten(2, (-1, p))  # (N, C, H/p, p, W/p, p)
        x = x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (N, T, C*p*p)
        x = self.stack(self.embedding(x))  # (N, T, width)
        return self.output(x.mean(dim=1))  # (N, num_classes)

    def sites(self) -> list[Site]:
        last = len(self.stack.blocks) + 1
        embedding, output = layer_name(0, last, "embedding"), layer_name(last, last, "output")
        return [
            Site(embedding, "linear", self.embedding),
            *self.stack.sites(),
            Site(output, "linear", self.output),
        ]


def patch_size_for(height: int, columns: int, patch_size: int | None) -> int:
    """The given patch size, or a quarter of the height; a size that does not tile the image is refused."""
    if patch_size is not None:
        require_at_least("patch_size", patch_size, 1)
    size = patch_size or height // 4
    if size == 0 or height % size or columns % size:
        divisors = [p for p in range(1, min(height, columns) + 1) if height % p == columns % p == 0]
        raise ValueError(
            f"patch_size={patch_size}: patches of {size} pixels do not tile a {height}x{columns} image; "
            f"use one of {', '.join(map(str, divisors))}"
        )
    return size
