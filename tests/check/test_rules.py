"""What counts of a check: ids that are asked or ignored, layers, a baseline, and the project's table."""

import functools
import inspect

import pytest
import torch
from small_networks import Lit, command, told
from torch import nn

import normexp
from normexp.check import rules, run
from normexp.check.finding import declared
from normexp.check.inputs import CheckOptions
from normexp.check.result import Finding, Result
from normexp.check.run import check

CALL = ("own_net:Blocks", "--data", "own_net:batch")


def test_select_asks_nothing_else(own, capsys):
    result = told(capsys, *CALL, "--select", "small_batch,eps")
    asked = {f["id"] for f in result["findings"]} | set(result["healthy"]) | set(result["not_checked"])
    assert asked == {"small_batch", "eps"}


def test_ignored_finding_does_not_fail(own, capsys):
    assert command(*CALL, "--strict") == 1
    assert command(*CALL, "--strict", "--ignore", "small_batch") == 0
    assert command(*CALL, "--strict", "--ignore", "small_batch@*.norm") == 0
    assert command(*CALL, "--strict", "--ignore", "small_batch@0.*") == 1
    result = told(capsys, *CALL, "--ignore", "small_batch@0.*")
    (kept,) = (f for f in result["findings"] if f["id"] == "small_batch")
    assert kept["layers"] == ["1.norm"]
    assert result["ignored"] == []


def test_rule_that_meets_nothing_is_said(own, capsys):
    facts = told(capsys, *CALL, "--ignore", "small_batch@stem.*,bias_cancelled@0.*")["facts"]
    assert [fact for fact in facts if "ignore" in fact] == ["ignore: nothing is found for small_batch@stem.*"]


def test_baseline_fails_on_what_is_new_alone(own, capsys):
    assert command(*CALL, "--baseline", "known.json", "--write-baseline") == 0
    assert command(*CALL, "--baseline", "known.json") == 0
    result = told(capsys, *CALL, "--baseline", "known.json")
    assert {f["id"] for f in result["ignored"]} == {"small_batch", "bias_cancelled"}
    other = told(capsys, "own_net:Eps", "--data", "own_net:batch", "--baseline", "known.json", status=1)
    assert [f["id"] for f in other["findings"]] == ["eps"]
    assert any("are gone" in fact for fact in other["facts"])  # of the second block


def test_layer_is_new_or_worse_whatever_else_is_known():
    """Against a plain loop over every pair of an id's layers and severities."""
    severities = ("error", "warning", "note")
    for known in severities:
        for now in severities:
            for layers in (("a",), ("b",), ("a", "b"), ()):
                table = {("eps", "a"): severities.index(known)}
                judged = rules.Rules(list(declared()), known=table)
                result = Result("net", [Finding("eps", now, "said", 1.0, "of", "mend", layers)])
                judged.judge(result)
                hidden = severities.index(known) <= severities.index(now)
                kept = [layer for layer in layers if layer != "a" or not hidden]
                assert [list(f.layers) for f in result.findings] == ([kept] if kept or not layers else [])


def test_table_of_pyproject_is_read_and_the_command_line_wins(own, tmp_path, capsys, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.normexp.check]\nignore = ["small_batch"]\nstrict = true\nsamples = 3\nbaseline = "known.json"\n'
    )
    assert command(*CALL, "--write-baseline") == 0
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert command(*CALL) == 0
    assert {f["id"] for f in told(capsys, *CALL, "--samples", "4")["ignored"]} == {
        "small_batch",
        "bias_cancelled",
    }
    (tmp_path / "known.json").unlink()
    (tmp_path / "pyproject.toml").write_text("[tool.normexp.check]\nstrict = true\n")
    assert command(*CALL) == 1
    assert command(*CALL, "--ignore=small_batch") == 0


def test_package_takes_what_the_function_and_its_options_take():
    own = inspect.signature(normexp.check).parameters
    of_function = {key: p.default for key, p in inspect.signature(run.check).parameters.items()}
    del of_function["options"]
    expected = of_function | {
        key: f.default for key, f in CheckOptions.__dataclass_fields__.items() if f.init
    }
    assert {key: p.default for key, p in own.items()} == expected
    assert all(f"\n    {key}: " in normexp.check.__doc__ for key in own)


@pytest.mark.parametrize("shape", ["one", "list", "dict", "pair", "dicts"])
def test_optimizer_of_a_lightning_module_is_used(shape):
    class Decays(Lit):
        def configure_optimizers(self):
            self.made = True
            adam = functools.partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.1)
            one, two = (adam(part.parameters()) for part in self.net)
            schedule = torch.optim.lr_scheduler.StepLR(one, 1)
            return {
                "one": adam(self.parameters()),
                "list": [one, two],
                "dict": {"optimizer": one, "lr_scheduler": schedule},
                "pair": ([one, two], [{"scheduler": schedule}]),
                "dicts": [{"optimizer": o} for o in (one, two)],
            }[shape]

    module = Decays(nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)) for _ in range(2))))
    result = check(module, torch.randn(8, 6))
    assert len(result["decay_on_norms"].layers) == (2 if shape == "dict" else 4)
    if shape == "dict":
        assert result["not_optimized"].layers == ("net.1.1.weight", "net.1.1.bias")
    else:
        assert "not_optimized" in result.healthy
    assert not hasattr(module, "made")
    if shape == "list":  # of a network that is no LightningModule
        given = check(module.net, torch.randn(8, 6), optimizer=module.configure_optimizers())
        assert len(given["decay_on_norms"].layers) == 4
        assert "not_optimized" in given.healthy


def test_optimizer_that_asks_for_a_trainer_is_not_checked_and_said():
    class Asks(Lit):
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), self.trainer.estimated_stepping_batches)

    result = check(Asks(nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6))), torch.randn(8, 6))
    assert "decay_on_norms" in result.not_checked
    assert any("configure_optimizers raises RuntimeError" in fact for fact in result.facts)


def test_mask_of_the_command_line_is_that_of_python(own, capsys):
    call = ("own_net:Tokens", "--data", "own_net:padded")
    assert "padding_counted" in told(capsys, *call)["not_checked"]
    masked = told(capsys, *call, "--mask", "own_net:real")
    assert "padding_counted" in [f["id"] for f in masked["findings"]]


def test_two_batches_are_the_training_batch_and_the_held_out_one(own, capsys, monkeypatch):
    seen = []
    real = run.two_batches
    monkeypatch.setattr(run, "two_batches", lambda *given: seen.append(real(*given)) or seen[-1])
    command("own_net:Blocks", "--data", "own_net:batch,own_net:held_out")
    batches = seen[0].batches
    assert len(batches.training[0]) == 4
    assert len(batches.held_out[0]) == 9
