"""The options of the blocks of gpt and of the image transformer, each against slow twins in float64."""

import math
import random

import pytest
import torch
from slow_gpt import SlowGPT
from small_models import model_factory, norm_factory, small_model
from torch import nn

from normexp.models.attention import rotated

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
    own, twin = (
        torch.autograd.grad((result * direction).sum(), parameters, allow_unused=True)
        for result in (logits, slow)
    )
    assert len(own) == len(parameters)
    for fast, exact in zip(own, twin, strict=True):
        assert (fast is None) == (exact is None)
        assert fast is None or torch.allclose(fast, exact, rtol=1e-9, atol=1e-9)


def test_rotation_makes_products_depend_on_the_distance_alone():
    q, k = torch.randn(2, 6, dtype=torch.float64)
    products = rotated(q.expand(9, 6), 50.0) @ rotated(k.expand(9, 6), 50.0).T
    for distance in range(9):
        along = products.diagonal(distance)
        assert torch.allclose(along, along[0], atol=1e-12)
    assert products[0, 0].item() == pytest.approx((q @ k).item())
    assert not torch.allclose(products[0, 1], products[0, 2])


def test_sink_is_a_token_without_value_and_takes_its_share():
    """Softmax with one more logit s: the plain result times sigmoid(log sum exp - s)."""
    model, _ = gpt(attention_sink=True, depth=1)
    attention = model.stack.blocks[0].attention.branch
    q, k, v = torch.randn(3, 2, 2, 5, 4, dtype=torch.float64)
    scores = (q @ k.transpose(-1, -2) / 2).masked_fill(~torch.ones(5, 5).tril().bool(), -math.inf)
    share = torch.sigmoid(scores.logsumexp(-1) - attention.sink[:, None])
    expected = scores.softmax(-1) @ v * share[..., None]
    assert torch.allclose(attention.attend(q, k, v), expected, atol=1e-12)


def test_image_transformer_takes_the_options_of_the_block():
    """One block of it equals one of gpt with the same weights, but for the causal triangle: on one token."""
    options = {
        "norm_position": "output", "depth_scaling": True, "qk_norm": True, "qk_norm_over": "width",
        "attention_sink": True, "activation": "swiglu", "bias": False,
        "embedding_norm": True, "attention_scale": 2.0, "mlp_ratio": 2.5, "depth": 2, "width": 8, "heads": 2,
    }  # fmt: skip
    text = gpt(**options, position="learned")[0].stack
    images = model_factory("transformer", **options)((1, 8, 8), 10, norm_factory("rmsnorm")).double().stack
    weights = text.state_dict()
    weights["positions"] = torch.cat([weights["positions"]] * 4)[:16]
    images.load_state_dict(weights)
    x = torch.randn(3, 1, 8, dtype=torch.float64)
    assert torch.allclose(text(x), images(x), atol=1e-12)
    several = torch.randn(3, 4, 8, dtype=torch.float64)
    assert not torch.allclose(text(several), images(several), atol=1e-3)


def test_tied_output_has_the_weights_of_the_embedding_through_training_and_saving():
    torch.manual_seed(0)
    model = small_model("gpt", tied_embedding=True)
    assert model.output.weight is model.embedding.weight
    count = sum(p.numel() for p in small_model("gpt").parameters()) - 11 * 16
    assert sum(p.numel() for p in model.parameters()) == count
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randint(11, (2, 6))).square().sum().backward()
    optimizer.step()
    other = small_model("gpt", tied_embedding=True, seed=1)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.output.weight, model.embedding.weight)
    assert other.output.weight is other.embedding.weight


def test_initial_weights_have_the_deviations_they_document():
    width, depth = 128, 3
    for initialization, embedding, inner, stream, last in (
        ("plain", 0.02, 0.02, [0.02] * 3, 0.02),
        ("scaled", 0.02, 0.02, [0.02 / math.sqrt(2 * k) for k in (1, 2, 3)], 0.02),
        ("zero_projection", 1.0, 1 / math.sqrt(width), [0.0] * 3, 0.001),
    ):
        options = {"depth": depth, "width": width, "heads": 2, "initialization": initialization}
        model = model_factory("gpt", **options)((16,), 100, norm_factory("none"))
        assert model.embedding.weight.std().item() == pytest.approx(embedding, rel=0.05)
        assert model.output.weight.std().item() == pytest.approx(last, rel=0.05)
        for block, expected in zip(model.stack.blocks, stream, strict=True):
            attention, mlp = block.attention.branch, block.mlp.branch
            for weight in (attention.qkv.weight, mlp.expand.weight):
                assert weight.std().item() == pytest.approx(inner, rel=0.05)
            for weight in (attention.output.weight, mlp.output.weight):
                assert weight.std().item() == pytest.approx(expected, rel=0.05)
