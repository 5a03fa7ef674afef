"""Which parameters decay, by role; what was decayed before there were roles."""

import functools

import pytest
import torch
from torch import nn

from normexp.config.checks import decay_of
from normexp.config.identity import config_hash
from normexp.config.run_spec import specs
from normexp.models import GPT, MLP
from normexp.norms import norm_named
from normexp.optimizers import Muon, roles
from normexp.schedules import Constant
from normexp.training.lit_model import LitModel

ROLES = {
    "pre": {"input_norms": 8, "qk": 8, "final": 2, "matrices": 11, "others": 9},
    "post": {"output_norms": 8, "qk": 8, "matrices": 11, "others": 9},
    "sandwich": {"input_norms": 8, "output_norms": 8, "qk": 8, "final": 2, "matrices": 11, "others": 9},
}


def gpt(**options):
    options = {"depth": 2, "width": 8, "heads": 2, "qk_norm": True, **options}
    return GPT((6,), 11, norm_named("layernorm"), **options)


@pytest.mark.parametrize("position", ROLES)
def test_each_parameter_of_a_gpt_has_the_role_of_its_site(position):
    found = roles(gpt(norm_position=position))
    assert {role: found.count(role) for role in found} == ROLES[position]


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


def test_roles_that_are_named_decay_alone():
    chosen = decay_of({"decay": {"output_norms": True, "matrices": False}})
    decayed = {name for name, (value, _) in groups(gpt(norm_position="sandwich"), chosen).items() if value}
    assert decayed == {
        f"stack.blocks.{k}.{branch}.norm_output.{which}"
        for k in (0, 1)
        for branch in ("attention", "mlp")
        for which in ("weight", "bias")
    }
    assert {n for n, (v, _) in groups(gpt(), decay_of({"decay": {}})).items() if v} == {
        n for n, (v, _) in groups(gpt(), "matrices").items() if v
    }


def test_muon_gets_the_hidden_maps_of_a_model_and_no_embedding_or_output():
    taken = {n for n, (_, muon) in groups(gpt(depth=1), "matrices", optimizer=Muon).items() if muon}
    block = "stack.blocks.0"
    assert taken == {
        f"{block}.attention.branch.qkv.weight", f"{block}.attention.branch.output.weight",
        f"{block}.mlp.branch.expand.weight", f"{block}.mlp.branch.output.weight",
    }  # fmt: skip
    mlp = MLP((1, 4, 4), 10, norm_named("layernorm"), depth=2, width=8)
    assert sum(muon for _, muon in groups(mlp, "matrices", optimizer=Muon).values()) == 2


@pytest.mark.parametrize(
    ("decay", "message"),
    [("gains", "optimizer.decay=gains: use matrices, all"),
     ("{qkv: true}", "optimizer.decay={'qkv': True}: use matrices"),
     ("{qk: 1}", "optimizer.decay={'qk': 1}: use matrices")],
)  # fmt: skip
def test_other_words_are_refused_in_one_line(decay, message):
    with pytest.raises(ValueError, match=message) as caught:
        specs([f"optimizer.decay={decay}"])
    assert len(str(caught.value).splitlines()) == 1


def test_the_default_is_no_part_of_the_identity_and_another_choice_is():
    plain, other = (specs(["optimizer=adamw", *more])[0] for more in ([], ["optimizer.decay=all"]))
    before = {
        **plain.config,
        "optimizer": {k: v for k, v in plain.config["optimizer"].items() if k != "decay"},
    }
    assert config_hash(before) == config_hash(plain.config) != config_hash(other.config)


def test_a_step_shrinks_what_decays_and_nothing_else(make_parts):
    """Without a gradient AdamW only decays."""
    parts = make_parts(
        "optimizer=adamw", "lr=0.1", "optimizer.weight_decay=0.5", "optimizer.decay={input_norms: true}"
    )
    model, module = parts.module.model, parts.module
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer = module.make_optimizers(fused=False)["optimizer"]
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    norms = {f"{n}." for n, m in model.named_modules() if hasattr(m, "batch_statistics")}
    for name, parameter in model.named_parameters():
        shrinks = parameter.dim() >= 2 or any(name.startswith(prefix) for prefix in norms)
        expected = before[name] * 0.95 if shrinks else before[name]
        torch.testing.assert_close(parameter.detach(), expected)
    assert any(isinstance(m, nn.Linear) for m in model.modules())
