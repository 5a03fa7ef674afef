"""What counts of a check: ids that are asked or ignored, layers, a baseline, and the project's table."""

import inspect
import json
import sys
from pathlib import Path

import pytest
import torch
from small_networks import command
from torch import nn

import normexp
from normexp.check import rules, run
from normexp.check.finding import declared
from normexp.check.inputs import CheckOptions
from normexp.check.result import Finding, Result
from normexp.check.run import CheckNorms, check

OWN = """
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.norm = nn.BatchNorm1d(6)
    def forward(self, x):
        return self.norm(self.linear(x))
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(Block(), Block(), nn.Linear(6, 3))
class Eps(nn.Sequential):
    def __init__(self):
        super().__init__(Block(), nn.Linear(6, 6), nn.LayerNorm(6, eps=100.0), nn.Linear(6, 3))
def batch():
    return torch.randn(4, 6), torch.randint(0, 3, (4,))
def held_out():
    return torch.randn(9, 6), torch.randint(0, 3, (9,))
class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Linear(6, 5), nn.BatchNorm1d(5)
    def forward(self, x):
        return self.norm(self.a(x).transpose(1, 2)).mean(2)
def padded():
    x = torch.randn(8, 10, 6) + 3
    x[:, 4:] = 0
    return x
def real(batch):
    return batch[..., 0] != 0
"""
CALL = ("own_net:Net", "--data", "own_net:batch")


def found(capsys, *words):
    capsys.readouterr()
    command(*CALL, "--json", *words)
    return json.loads(capsys.readouterr().out)


def test_select_asks_nothing_else(own, capsys):
    result = found(capsys, "--select", "small_batch,eps")
    asked = {f["id"] for f in result["findings"]} | set(result["healthy"]) | set(result["not_checked"])
    assert asked == {"small_batch", "eps"}


def test_ignored_finding_does_not_fail(own, capsys):
    assert command(*CALL, "--strict") == 1
    assert command(*CALL, "--strict", "--ignore", "small_batch") == 0
    assert command(*CALL, "--strict", "--ignore", "small_batch@*.norm") == 0
    assert command(*CALL, "--strict", "--ignore", "small_batch@0.*") == 1
    result = found(capsys, "--ignore", "small_batch@0.*")
    (kept,) = (f for f in result["findings"] if f["id"] == "small_batch")
    assert kept["layers"] == ["1.norm"]
    assert result["ignored"] == []


def test_rule_that_meets_nothing_is_said(own, capsys):
    facts = found(capsys, "--ignore", "small_batch@stem.*,bias_cancelled@0.*")["facts"]
    assert [fact for fact in facts if "ignore" in fact] == ["ignore: nothing is found for small_batch@stem.*"]


@pytest.mark.parametrize("option", ["--select", "--ignore", "--explain"])
def test_typo_in_an_id_is_refused(own, option, capsys):
    assert command(*CALL, option, "small_bach") == 2
    error = capsys.readouterr().err
    assert "did you mean small_batch?" in error
    assert error.count("\n") == 1
    with pytest.raises(ValueError, match="did you mean small_batch"):
        CheckNorms(ignore=("small_bach",))


def test_baseline_fails_on_what_is_new_alone(own, capsys):
    assert command(*CALL, "--baseline", "known.json") == 2
    assert "--write-baseline writes it" in capsys.readouterr().err
    assert command(*CALL, "--baseline", "known.json", "--write-baseline") == 0
    assert command(*CALL, "--baseline", "known.json") == 0
    result = found(capsys, "--baseline", "known.json")
    assert {f["id"] for f in result["ignored"]} == {"small_batch", "bias_cancelled"}
    other = ("own_net:Eps", "--data", "own_net:batch", "--baseline", "known.json")
    capsys.readouterr()
    assert command(*other, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    assert [f["id"] for f in told["findings"]] == ["eps"]
    assert any("are gone" in fact for fact in told["facts"])  # of the second block
    Path("known.json").write_text("[]")
    assert command(*CALL, "--baseline", "known.json") == 2


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
    assert {f["id"] for f in found(capsys, "--samples", "4")["ignored"]} == {
        "small_batch",
        "bias_cancelled",
    }
    (tmp_path / "known.json").unlink()
    (tmp_path / "pyproject.toml").write_text("[tool.normexp.check]\nstrict = true\n")
    assert command(*CALL) == 1
    assert command(*CALL, "--ignore=small_batch") == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('loss = "own_net:batch"', "loss: no such key"),
        ("ignroe = []", "did you mean ignore?"),
        ('ignore = "eps"', "must be a list of ids"),
        ('ignore = ["epps"]', "did you mean eps?"),
        ("samples = 0", "samples=0"),
        ("strict = ", "pyproject.toml"),
        ("baseline = 3", "baseline=3: must be the path"),
        ("[tool.normexp]\ncheck = 3", "check=3: must be a table"),
    ],
)
def test_mistake_in_the_table_is_one_line(own, row, message, tmp_path, capsys):
    table = row if row.startswith("[") else f"[tool.normexp.check]\n{row}"
    (tmp_path / "pyproject.toml").write_text(f"{table}\n")
    assert command(*CALL) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


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
    from pytorch_lightning import LightningModule

    class Lit(LightningModule):
        def __init__(self):
            super().__init__()
            self.a, self.b = (nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6)) for _ in range(2))

        def training_step(self, batch, index):
            return self.b(self.a(batch)).square().mean()

        def configure_optimizers(self):
            self.made = True
            one, two = (torch.optim.AdamW(m.parameters(), 1e-3, weight_decay=0.1) for m in (self.a, self.b))
            schedule = torch.optim.lr_scheduler.StepLR(one, 1)
            if shape == "one":
                return torch.optim.AdamW(self.parameters(), 1e-3, weight_decay=0.1)
            ways = {"list": [one, two], "dict": {"optimizer": one, "lr_scheduler": schedule}}
            ways |= {
                "pair": ([one, two], [{"scheduler": schedule}]),
                "dicts": [{"optimizer": o} for o in (one, two)],
            }
            return ways[shape]

    module = Lit()
    result = check(module, torch.randn(8, 6))
    decayed, absent = (2, 2) if shape == "dict" else (4, 0)
    assert len(result["decay_on_norms"].layers) == decayed
    assert len(result["not_optimized"].layers if "not_optimized" in result else ()) == absent
    assert not hasattr(module, "made")


def test_optimizer_that_asks_for_a_trainer_is_not_checked_and_said():
    from pytorch_lightning import LightningModule

    class Lit(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6))

        def training_step(self, batch, index):
            return self.net(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), self.trainer.estimated_stepping_batches)

    result = check(Lit(), torch.randn(8, 6))
    assert "decay_on_norms" in result.not_checked
    assert any("configure_optimizers raises RuntimeError" in fact for fact in result.facts)


def test_mask_of_the_command_line_is_that_of_python(own, capsys):
    capsys.readouterr()
    call = ("own_net:Tokens", "--data", "own_net:padded", "--json")
    assert command(*call) == 0
    assert "padding_counted" in json.loads(capsys.readouterr().out)["not_checked"]
    assert command(*call, "--mask", "own_net:real") == 0
    assert "padding_counted" in [f["id"] for f in json.loads(capsys.readouterr().out)["findings"]]
    assert command(*call, "--mask", "own_net:unreal") == 2


def test_two_batches_are_the_training_batch_and_the_held_out_one(own, capsys, monkeypatch):
    seen = []
    real = run.two_batches
    monkeypatch.setattr(run, "two_batches", lambda *given: seen.append(real(*given)) or seen[-1])
    command("own_net:Net", "--data", "own_net:batch,own_net:held_out")
    batches = seen[0].batches
    assert len(batches.training[0]) == 4
    assert len(batches.held_out[0]) == 9


def test_safetensors_without_its_package_names_the_remedy(own, tmp_path, monkeypatch, capsys):
    (tmp_path / "x.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    assert command(*CALL, "--state-dict", "x.safetensors") == 2
    error = capsys.readouterr().err
    assert "pip install" in error
    assert "safetensors" in error
    assert error.count("\n") == 1


def test_callback_takes_the_same_options(tmp_path):
    from pytorch_lightning import LightningModule, Trainer

    class Lit(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))

        def training_step(self, batch, index):
            return self.net(batch).square().mean()

        def train_dataloader(self):
            return torch.utils.data.DataLoader(torch.randn(8, 6), batch_size=4)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def fit(**options):
        callback = CheckNorms(strict=True, **options)
        trainer = Trainer(
            callbacks=[callback], max_steps=1, logger=False, enable_checkpointing=False, accelerator="cpu",
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
        )  # fmt: skip
        trainer.fit(Lit())
        return callback.result

    with pytest.raises(ValueError, match="small_batch"):
        fit()
    result = fit(ignore=["small_batch@net.*"], select=["small_batch", "eps"])
    assert [f.id for f in result.ignored] == ["small_batch"]
