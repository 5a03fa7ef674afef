"""Which parameters decay, and which ones Muon updates."""

import functools

import pytest
import torch
from refusals import refused

from normexp.config.identity import config_hash
from normexp.config.run_spec import specs
from normexp.models import GPT, MLP
from normexp.norms import norm_named
from normexp.optimizers import Muon
from normexp.schedules import Constant
from normexp.training.lit_model import LitModel


def gpt(**options):
    options = {"depth": 2, "width": 8, "heads": 2, "qk_norm": True, **options}
    return GPT((6,), 11, norm_named("layernorm"), **options)


def groups(model, decay, *, optimizer=torch.optim.AdamW, weight_decay=0.1):
    """Name of each parameter -> its group's decay and whether Muon updates it."""
    made = functools.partial(optimizer, lr=0.1, weight_decay=weight_decay)
    module = LitModel(model, made, Constant(), total_steps=1, decay=decay)
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = module.make_optimizers(fused=False).param_groups
    return {names[p]: (g["weight_decay"], g.get("muon")) for g in groups for p in g["params"]}


def test_by_default_matrices_decay_and_by_all_everything_does():
    model = gpt()
    by_default, every = groups(model, "matrices"), groups(model, "all")
    assert by_default.keys() == every.keys() == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        assert by_default[name] == (0.1 if parameter.dim() >= 2 else 0.0, None)
        assert every[name] == (0.1, None)


def test_muon_gets_the_hidden_maps_of_a_model_and_no_embedding_or_output():
    taken = {n for n, (_, muon) in groups(gpt(depth=1), "matrices", optimizer=Muon).items() if muon}
    block = "stack.blocks.0"
    assert taken == {
        f"{block}.attention.branch.qkv.weight", f"{block}.attention.branch.output.weight",
        f"{block}.mlp.branch.expand.weight", f"{block}.mlp.branch.output.weight",
    }  # fmt: skip
    mlp = MLP((1, 4, 4), 10, norm_named("layernorm"), depth=2, width=8)
    assert sum(muon for _, muon in groups(mlp, "matrices", optimizer=Muon).values()) == 2


@pytest.mark.parametrize("decay", ["gains", "{input_norms: true}"])
def test_other_words_are_refused_in_one_line(decay):
    with refused(r"optimizer.decay=.*; use one of matrices, all"):
        specs([f"optimizer.decay={decay}"])


def test_the_default_is_no_part_of_the_identity_and_another_choice_is():
    plain, other = (specs(["optimizer=adamw", *more])[0] for more in ([], ["optimizer.decay=all"]))
    optimizer = {key: value for key, value in plain.config["optimizer"].items() if key != "decay"}
    before = {**plain.config, "optimizer": optimizer}
    assert config_hash(before) == config_hash(plain.config) != config_hash(other.config)


def test_a_step_shrinks_what_decays_and_nothing_else(make_parts):
    """Without a gradient AdamW only decays."""
    module = make_parts("optimizer=adamw", "lr=0.1", "optimizer.weight_decay=0.5").module
    before = {name: p.detach().clone() for name, p in module.model.named_parameters()}
    optimizer = module.make_optimizers(fused=False)["optimizer"]
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    for parameter in module.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in module.model.named_parameters():
        expected = before[name] * 0.95 if parameter.dim() >= 2 else before[name]
        torch.testing.assert_close(parameter.detach(), expected)
