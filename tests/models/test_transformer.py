"""The image transformer, and the blocks that it shares with gpt."""

import math

import pytest
import torch
from small_models import model_factory, norm_factory
from torch import nn

from normexp.models.attention import Attention, AttentionOptions
from normexp.models.layers import TransformerWeights

WEIGHTS = TransformerWeights("xavier", depth=1, weight_norm=None)


def transformer(norm="none", input_shape=(1, 8, 8), **options):
    torch.manual_seed(0)
    return model_factory("transformer", **options)(input_shape, 10, norm_factory(norm))


def randomized(module):
    """Float64, with all parameters random, so that no bias or gain can be forgotten."""
    for p in module.double().parameters():
        nn.init.normal_(p, std=0.5)
    return module


@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_matches_a_slow_loop_in_float64(causal, qk_norm):
    norm = norm_factory("layernorm")
    options = AttentionOptions(heads=2, causal=causal, qk_norm=qk_norm)
    attention = randomized(Attention(6, norm, WEIGHTS, options))
    x = torch.randn(3, 5, 6, dtype=torch.float64)
    expected = torch.zeros_like(x)
    for sample in range(3):
        queries, keys, values = (attention.qkv(x[sample])).split(6, dim=-1)  # each (T, C)
        for head in (slice(0, 3), slice(3, 6)):
            for t in range(5):
                seen = range(t + 1) if causal else range(5)
                q, ks = queries[t, head], [keys[s, head] for s in seen]
                if qk_norm:
                    q = nn.functional.layer_norm(
                        q, (3,), attention.norm_query.weight, attention.norm_query.bias
                    )
                    weight, bias = attention.norm_key.weight, attention.norm_key.bias
                    ks = [nn.functional.layer_norm(k, (3,), weight, bias) for k in ks]
                scores = [math.exp((q @ k).item() / math.sqrt(3)) for k in ks]
                for s, score in zip(seen, scores, strict=True):
                    expected[sample, t, head] += score / sum(scores) * values[s, head]
    assert torch.allclose(attention(x), attention.output(expected), atol=1e-12)


def test_patches_keep_their_pixels_together():
    model = transformer(input_shape=(2, 4, 8), patch_size=2, width=8)
    images = torch.randn(3, 2, 4, 8)
    seen = []
    model.embedding.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    model(images)
    patches = [images[:, :, i : i + 2, j : j + 2].flatten(1) for i in (0, 2) for j in (0, 2, 4, 6)]
    assert torch.equal(seen[0], torch.stack(patches, dim=1))  # (3, 8, 2*2*2)
