"""The causal text model: what it may see."""

import copy

import pytest
import torch
from small_models import NORMS, model_factory, norm_factory, small_batch, small_model


def last_token_changes_earlier_logits(model):
    """Whether, in training mode, logits before the last position depend on the last token."""
    tokens, _ = small_batch("gpt")
    changed = tokens.clone()
    changed[:, -1] = (tokens[:, -1] + 1) % 11
    logits = []
    for inputs in (tokens, changed):
        torch.manual_seed(0)  # for norms that draw noise
        logits.append(copy.deepcopy(model)(inputs)[:, :-1])  # a copy, for norms that keep running statistics
    return not torch.allclose(*logits, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["gpt", "gpt_post"])
@pytest.mark.parametrize("norm", NORMS)
def test_leaks_future_is_set_exactly_where_a_later_token_is_seen(name, norm):
    try:
        model = small_model(name, norm)
        leaks = last_token_changes_earlier_logits(model)
    except ValueError as refusal:
        pytest.skip(f"refused: {refusal}")
    assert leaks == model.leaks_future


def gpt(norm="layernorm", context=16, **options):
    return model_factory("gpt", **options)((context,), 11, norm_factory(norm))


def test_leaking_norm_warns_in_one_line_naming_it_and_what_to_use():
    with pytest.warns(UserWarning, match="BatchNorm.*use norm=layernorm or norm=rmsnorm") as caught:
        gpt("batchnorm", depth=2, width=8, heads=2)
    assert len(caught) == 1
    assert "\n" not in str(caught[0].message)


def test_shorter_text_than_the_context_gives_the_same_logits():
    model = gpt(depth=2, width=16, heads=2).double()
    tokens = torch.randint(11, (2, 16))
    assert torch.allclose(model(tokens[:, :7]), model(tokens)[:, :7], atol=1e-12)
