"""The options of the blocks of gpt and of the image transformer, each against slow twins in float64."""

import math
import random

import pytest
import torch
from slow_gpt import SlowGPT
from small_models import model_factory, norm_factory
from torch import nn

VALUES = {
    "position": ["rope"],
    "rope_base": [100.0],
    "norm_position": ["post", "sandwich", "output", "keel"],
    "qk_norm": [True],
    "qk_norm_over": ["width"],
    "qk_norm_place": ["after"],
    "attention_scale": [1.44],
    "attention_sink": [True],
    "mlp_ratio": [8 / 3],
    "activation": ["relu2", "silu", "swiglu", "geglu"],
    "bias": [False],
    "embedding_norm": [True],
    "embedding_scale": ["sqrt", "learned"],
    "tied_embedding": [True],
    "final_norm": [False, True],
    "initialization": ["plain", "scaled", "zero_projection"],
    "ngrams": [3],
}
ALONE = [{name: value} for name, values in VALUES.items() for value in values]
ALONE += [{"norm_position": position, "depth_scaling": True} for position in ("pre", "output")]
NEEDS = {
    "qk_norm_over": {"qk_norm": True},
    "rope_base": {"position": "rope"},
    "ngrams": {"ngram_rows": 16},
}
NEEDS["qk_norm_place"] = {"qk_norm": True, "position": "rope"}


def some(seed):
    """Each option at its default or at another value."""
    draw = random.Random(seed)
    return {name: draw.choice(values) for name, values in VALUES.items() if draw.random() < 0.6}


MIXED = [some(seed) for seed in range(24)]


def gpt(norm="rmsnorm", **options):
    torch.manual_seed(0)
    options = {"depth": 2, "width": 8, "heads": 2, **options}
    model = model_factory("gpt", **options)((5,), 7, norm_factory(norm)).double()
    for p in model.parameters():  # so that no bias, gain or sink can be forgotten
        nn.init.normal_(p, std=0.5)
    return model, options


@pytest.mark.parametrize(
    "options", [*ALONE, *MIXED], ids=lambda options: ",".join(map(str, options.values()))
)
@pytest.mark.parametrize("norm", ["rmsnorm", "layernorm"])
def test_logits_and_gradients_match_a_twin_in_loops(options, norm):
    for name in list(options):
        options = {**NEEDS.get(name, {}), **options}
    model, options = gpt(norm, **options)
    tokens = torch.tensor([3, 1, 4, 1, 5])
    logits = model(tokens[None])[0]
    slow = SlowGPT(model, options, centered=norm == "layernorm")(tokens)
    assert torch.allclose(logits, slow, rtol=1e-10, atol=1e-10)
    direction = torch.randn_like(logits)
    parameters = list(model.parameters())
    losses = [(result * direction).sum() for result in (logits, slow)]
    own, twin = (torch.autograd.grad(loss, parameters, allow_unused=True) for loss in losses)
    assert len(own) == len(parameters)
    for fast, exact in zip(own, twin, strict=True):
        assert (fast is None) == (exact is None)
        assert fast is None or torch.allclose(fast, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("qk_norm", [True, False])
def test_image_transformer_has_the_blocks_of_gpt_and_sees_all_patches(qk_norm):
    options = {
        "norm_position": "output", "depth_scaling": True, "qk_norm": qk_norm, "qk_norm_over": "width",
        "attention_sink": True, "activation": "swiglu", "bias": False, "embedding_norm": True,
        "attention_scale": 2.0, "mlp_ratio": 2.5, "depth": 2, "width": 8, "heads": 2, "patch_size": 4,
    }  # fmt: skip
    model = model_factory("transformer", **options)((1, 8, 8), 10, norm_factory("rmsnorm")).double()
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    x = torch.randn(1, 4, 8, dtype=torch.float64)
    slow = SlowGPT(model, {**options, "causal": False}, centered=False)
    assert torch.allclose(model.stack(x)[0], torch.stack(slow.stack(list(x[0]))), atol=1e-12)


def test_patches_keep_their_pixels_together():
    model = model_factory("transformer", patch_size=2, width=8)((2, 4, 8), 10, norm_factory("none"))
    images, seen = torch.randn(3, 2, 4, 8), []
    model.embedding.register_forward_pre_hook(lambda m, args: seen.append(args[0]))
    model(images)
    patches = [images[:, :, i : i + 2, j : j + 2].flatten(1) for i in (0, 2) for j in (0, 2, 4, 6)]
    assert torch.equal(seen[0], torch.stack(patches, dim=1))  # (3, 8, 2*2*2)


DEVIATIONS = {  # of block k of 3, 128 wide: queries, keys and values; attention's output; expansion; its output
    "gpt2": lambda k: (0.02, 0.02 / math.sqrt(6), 0.02, 0.02 / math.sqrt(6)),
    "xavier": lambda k: (math.sqrt(1 / 128),) * 2 + (math.sqrt(2 / 640),) * 2,
    "plain": lambda k: (0.02,) * 4,
    "scaled": lambda k: (0.02, 0.02 / math.sqrt(2 * k)) * 2,
    "zero_projection": lambda k: (1 / math.sqrt(128), 0.0) * 2,
}
# Of embedding and output, of 100 tokens.
ENDS = {"xavier": (1.0, math.sqrt(2 / 228)), "zero_projection": (1.0, 0.001)}


@pytest.mark.parametrize("initialization", DEVIATIONS)
def test_initial_weights_have_the_deviations_they_document(initialization):
    torch.manual_seed(0)
    options = {"depth": 3, "width": 128, "heads": 2, "initialization": initialization}
    model = model_factory("gpt", **options)((16,), 100, norm_factory("none"))
    for k, block in enumerate(model.stack.blocks, start=1):
        attention, mlp = block.attention.branch, block.mlp.branch
        weights = [*attention.qkv.weight.chunk(3)]
        weights += [attention.output.weight, mlp.expand.weight, mlp.output.weight]
        inner, *others = DEVIATIONS[initialization](k)
        assert [w.std().item() for w in weights] == pytest.approx([inner] * 3 + others, rel=0.05)
    ends = [w.std().item() for w in (model.embedding.weight, model.output.weight)]
    assert ends == pytest.approx(ENDS.get(initialization, (0.02, 0.02)), rel=0.05)
    assert model.stack.positions.std().item() == pytest.approx(0.02, rel=0.1)
