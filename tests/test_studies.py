"""The studies of docs/studies: each composes, is registered as it stands, and computes what its page says."""

import importlib
import math
import sys
from pathlib import Path

import pytest
import torch
from audit_registry import PLANS, plan_mistakes
from torch import nn
from torch.optim import AdamW

from normexp import models, norms
from normexp.claims.evidence.disk import DiskRuns
from normexp.claims.evidence.grid import grid_of
from normexp.claims.evidence.registry import REGISTRY, latest, protocol_of, read_registry, subject_of
from normexp.claims.evidence.table import EVIDENCE, runs_in
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.find import documents_in, read_all
from normexp.config.folder import allow_from, use_folder
from normexp.config.targets import DataOfLaunch
from normexp.optimizers import parameter_groups

ROOT = Path(__file__).parents[1]
STUDIES = sorted(path.parent.parent for path in ROOT.glob("docs/studies/*/claims/*.yaml"))


@pytest.fixture
def study(monkeypatch):
    """Uses the folder of a study by name, as the command line does, and gives its module."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("NORMEXP_CONFIG_DIR", "NORMEXP_ALLOW_TARGETS"):
        monkeypatch.setenv(name, "")

    def use(name):
        folder = ROOT / "docs/studies" / name
        use_folder(folder)
        allow_from([f"allow_targets=[{name}_study]"])
        if (folder / f"{name}_study.py").exists():
            sys.path.append(str(folder))
            return importlib.import_module(f"{name}_study")
        return None

    return use


@pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)
def test_a_study_composes_and_is_registered_as_it_stands(folder, study, tmp_path, monkeypatch):
    study(folder.name)
    # Not every machine has the data.
    monkeypatch.setattr(DataOfLaunch, "fingerprint", lambda self, config: "")
    sys.path[:] = [place for place in sys.path if place != str(folder)]  # `_target_` finds the module itself
    sources, broken = documents_in(folder / "claims")
    drawn = {name: claim for name, claim in read_all(sources)[0].items() if claim.drawn}
    claims, mistakes = read_all(sources, load_bank(folder.name))
    claims |= drawn  # they name their bank themselves
    assert claims
    assert not broken
    assert not {name: said for name, said in mistakes.items() if name not in drawn}
    rows = read_registry(ROOT / REGISTRY)
    for claim in claims.values():
        row = latest(rows, subject_of(claim.id, claim.bank))
        assert row
        assert row.protocol == protocol_of(claim)
        grid = grid_of(claim).drop_duplicates("overrides")
        assert len(DiskRuns(claim, tmp_path).specs(grid)) == len(grid)
    assert "## Fixed before the first run" in (folder / "README.md").read_text()


def test_plans_are_what_was_registered_before_their_runs(tmp_path):
    runs, rows = runs_in(EVIDENCE), read_registry(ROOT / REGISTRY)
    assert plan_mistakes(PLANS, runs, rows) == []
    changed = (PLANS / "depth.yaml").read_text().replace("seeds: [1, 2, 3]", "seeds: [1, 2]")
    (tmp_path / "depth.yaml").write_text(changed)
    early = runs.assign(started="2026-11-01T00:00:00+00:00")
    mistakes = ("is not what was registered", "has runs from before it was registered")
    assert plan_mistakes(tmp_path, early, rows) == [f"plan depth: {mistake}" for mistake in mistakes]


SHAPE = {"input_shape": (1, 6, 6), "num_classes": 5, "depth": 5, "width": 32}


def test_a_centered_sigmoid_network_is_one_of_tanh(study):
    made, centered = {}, {"activation": "sigmoid", "gain": 4.0, "centered": True}
    kinds = {models.MLP: {"activation": "tanh"}, study("initialization").StartedMLP: centered}
    for kind, options in kinds.items():
        torch.manual_seed(0)
        made[kind] = kind(norm=norms.Identity, initialization="xavier", **SHAPE, **options).double()
    x = torch.randn(7, 1, 6, 6, dtype=torch.float64)
    torch.testing.assert_close(*(model(x) for model in made.values()))


def test_units_start_as_behind_batchnorm_and_layers_with_deviation_1(study):
    kind, x = study("initialization").StartedMLP, torch.randn(300, 1, 6, 6)
    for fit in ("units", "layers"):
        model = kind(norm=norms.Identity, activation="sigmoid", fit=fit, **SHAPE)
        model.start_from(x)
        inputs = x.flatten(1)
        for layer in model.layers:
            z, inputs = layer.linear(inputs), layer(inputs)
            spread, ones = (z.std(0), torch.ones(32)) if fit == "units" else (z.std(), torch.ones(()))
            torch.testing.assert_close(spread, ones, rtol=1e-3, atol=1e-3)
            if fit == "units":
                torch.testing.assert_close(z.mean(0), torch.zeros(32), rtol=0, atol=1e-3)


def displaced(study, **options):
    return study("noise").Displaced(64, **options)


def test_a_walk_is_spread_as_noise_and_moves_slowly(study):
    layer, x = displaced(study, pace=0.1), torch.randn(16, 64)
    places = []
    for _ in range(2000):
        layer(x)
        places.append(layer.position.clone())
    walk = torch.stack(places)
    assert walk.abs().max() <= 1
    assert walk.std().item() == pytest.approx(1 / math.sqrt(3), rel=0.05)  # of U(-1, 1)
    assert (walk[1:] - walk[:-1]).std().item() == pytest.approx(0.1, rel=0.05)
    near, far = (
        torch.corrcoef(torch.stack([walk[lag:].flatten(), walk[:-lag].flatten()]))[0, 1] for lag in (1, 300)
    )
    assert near > 0.98
    assert far.abs() < 0.15


def test_displacement_without_a_norm_is_as_large_as_behind_one(study):
    x = 5 + 3 * torch.randn(4096, 64)
    alone = displaced(study, normalize=False)
    moved = (alone(x) - x) / 3
    behind = displaced(study)(x) - (x - x.mean(0)) / x.std(0)
    assert moved.std().item() == pytest.approx(behind.std().item(), rel=0.05)


def test_eval_mode_keeps_a_place_and_replaces_noise_by_its_mean(study):
    x = torch.randn(4096, 64)
    for pace in (None, 0.0):
        layer = displaced(study, pace=pace, eps=0.0)
        for _ in range(100):
            y = layer(x)
        mean, scale = layer.eval()(x).mean(0), layer(x).std(0)
        torch.testing.assert_close((mean, scale), tuple(m for m in layer.moments()), rtol=0.02, atol=0.02)
        if pace == 0:
            torch.testing.assert_close((mean, scale), (y.mean(0), y.std(0)), rtol=0.03, atol=0.03)


def gradients(model, x):
    model.zero_grad()
    nn.functional.cross_entropy(model(x), torch.arange(len(x)) % 5).backward()


def mlp():
    torch.manual_seed(0)
    return models.MLP(norm=norms.Identity, activation="sigmoid", **SHAPE)


@pytest.mark.parametrize(("part", "layers"), [("all", 6), ("first half", 3), ("last half", 3)])
def test_the_first_steps_of_chosen_layers_are_as_long_as_the_last_layers(study, part, layers):
    model, x = mlp(), torch.randn(20, 1, 6, 6)
    before = [p.clone() for p in model.parameters()]
    optimizer = study("layer_steps").EqualGradients(
        parameter_groups(model, weight_decay=0, layers_apart=True), lr=0.1, part=part
    )
    assert [group["layer"] for group in optimizer.param_groups] == [1, 2, 3, 4, 5, 6]
    gradients(model, x)
    optimizer.step()
    moved = [(p - old).flatten() for p, old in zip(model.parameters(), before, strict=True)]
    steps = torch.stack([torch.cat(moved[k : k + 2]).norm() for k in range(0, 12, 2)])
    equal = torch.isclose(steps, steps[-1], rtol=1e-3)
    assert equal.sum() >= layers
    assert equal[:3].all() == (part != "last half")
    assert equal[3:].all() == (part != "first half")


def test_adam_for_all_layers_is_adamw_and_a_checkpoint_keeps_its_state(study):
    x, kind = torch.randn(20, 1, 6, 6), study("layer_steps").AdamPart
    model, twin = mlp(), mlp()
    make = lambda model: kind(parameter_groups(model, weight_decay=0, layers_apart=True), lr=0.3, part="all")  # noqa: E731
    ours, theirs = make(model), AdamW(twin.parameters(), lr=0.003, weight_decay=0.0)
    for step in range(6):
        if step == 3:
            state = ours.state_dict()
            ours = make(model)
            ours.load_state_dict(state)
        for own, optimizer in ((model, ours), (twin, theirs)):
            gradients(own, x)
            optimizer.step()
    torch.testing.assert_close(list(model.parameters()), list(twin.parameters()))


def test_parts_of_batchnorm_are_its_parts(study):
    part, x = study("parts_of_batchnorm").PartOfBatchNorm, 3 + 2 * torch.randn(32, 8)
    whole = norms.BatchNorm(8)
    torch.testing.assert_close(part(8)(x), whole(x))
    torch.testing.assert_close(part(8, use="mean")(x), x - x.mean(0))
    torch.testing.assert_close(part(8, use="deviation")(x), x / x.var(0, correction=0).add(1e-5).sqrt())
    torch.testing.assert_close(part(8, last=1)(x), part(8, detach=True)(x))
    stale = part(8, last=2)
    stale(x)
    later = stale(x + 1)
    torch.testing.assert_close(later.mean(0), (0.5 / x.std(0, correction=0)), rtol=1e-3, atol=1e-3)
    x.requires_grad_()
    part(8, detach=True)(x).sum().backward()
    assert x.grad.abs().min() > 0  # a shift of all values changes the output


def test_blocks_of_skip_init_pass_their_input_on_at_first(study):
    kind = study("residuals").SkipInitResNet
    model = kind(input_shape=(3, 8, 8), num_classes=5, norm=norms.Identity, depth=8, width=4)
    x = torch.randn(2, 4, 8, 8).relu()
    assert torch.equal(model.blocks[0](x), x)
