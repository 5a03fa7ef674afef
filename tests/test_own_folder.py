"""A user's folder outside the repository: own norm, data, monitor and claim in runs, sweeps, reports and verdicts."""

import json

import pytest
from command_words import options_of
from forked import started
from refusals import refused

from normexp.cli.main import run
from normexp.cli.new import begin
from normexp.cli.verify import verify
from normexp.config.compose import compose
from normexp.config.folder import VARIABLE, own_folder, use_folder

DATA = '''
import torch
from torch.utils.data import TensorDataset


class Rings(TensorDataset):
    """Points on two rings: which one?"""

    classes = ("inner", "outer")

    def __init__(self, split: str, points: int = 200):
        draw = torch.Generator().manual_seed(len(split))
        ring, angle = torch.randint(2, (points,), generator=draw), torch.rand(points, generator=draw) * 6.283
        super().__init__(torch.stack([angle.cos(), angle.sin()], 1) * (1 + ring)[:, None], ring)
'''
CLAIM = """
name: rings_need_a_norm
sentence: My norm separates two rings better than no norm.
source: a test
kind: ours
covers: [M1]
evidence: training
metric: test/accuracy
measure: accuracy on test
better: higher
arms: {mine: [norm=my_norm], none: [norm=none]}
fixed: [model=mlp, model.depth=1, model.width=8, data=digits, batch_size=32, max_steps=2, trainer=cpu]
seeds: 5
comparison: {kind: greater, arm: mine, baseline: none, margin: 0.01}
seconds: 1
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.chdir(tmp_path)
    begin("norm", "my_norm", tmp_path)
    begin("monitor", "my_monitor", tmp_path)
    (tmp_path / "my_data.py").write_text(DATA)
    (tmp_path / "configs" / "claims").mkdir()
    (tmp_path / "configs" / "claims" / "M1.yaml").write_text(CLAIM)
    return tmp_path


def normexp(folder, *arguments):
    done = started("-m", "normexp", *arguments, folder=folder, more=[folder])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_flag_in_its_forms(folder):
    for words in (
        ["--config-dir", "configs"],
        ["--config-dir=configs"],
        ["config_dir=configs"],
    ):
        assert options_of(verify, ["claim=M1", *words, "bank=gpu"])["config_dir"] == "configs"
        assert own_folder() == folder / "configs"
    with refused("config_dir: a value is missing"):
        options_of(verify, ["claim=M1", "--config-dir"])


def test_choices_of_the_folder_compose_and_are_gone_afterwards(folder):
    use_folder("configs")
    assert own_folder() == folder / "configs"
    cfg, choices = compose(["norm=my_norm"])
    assert cfg.norm._target_.startswith("my_norm.")
    assert choices["norm"] == "my_norm"
    use_folder(None)
    assert own_folder() is None
    with pytest.raises(Exception, match="my_norm"):
        compose(["norm=my_norm"])


def test_a_folder_that_is_not_there_is_one_line(folder, capsys):
    assert run("verify", ["claim=M1", "--config-dir", "nowhere"]) == 2
    assert "config_dir=nowhere: no such folder; it holds norm/mine.yaml, " in capsys.readouterr().err


def test_a_claim_may_not_take_the_name_of_another(folder, capsys):
    (folder / "configs" / "claims" / "M1.yaml").rename(folder / "configs" / "claims" / "S37a.yaml")
    assert run("verify", ["claim=S37a", "--config-dir=configs"]) == 2
    assert "S37a is a claim of normexp; rename yours" in capsys.readouterr().err


def test_the_plan_of_an_own_claim_names_its_runs(folder, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    words = ["claim=M1", "--config-dir", "configs", "allow_targets=[my_norm]", "--plan"]
    assert run("verify", words) == 0
    assert "10 runs" in capsys.readouterr().out
    assert not (folder / "outputs").exists()


@pytest.mark.parametrize("words", [["train", "norm=my_norm"], ["verify", "claim=mine.yaml"]])
def test_whoever_forgets_the_flag_is_told(folder, capsys, words):
    (folder / "configs" / "claims" / "M1.yaml").rename(folder / "mine.yaml")
    try:
        status = run(*words[:1], words[1:])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert "norm=my_norm: no such choice; " in (said := capsys.readouterr().err)
    assert said.endswith("; for one of your own add --config-dir FOLDER\n")


@pytest.mark.slow
def test_own_norm_data_and_monitor_in_a_sweep_its_report_and_a_verdict(folder):
    words = [
        "train", "-m", "--config-dir", "configs", "norm=none,my_norm", "seed=0,1", "monitor=[gradients,my_monitor]",
        "data=module", "data.path=my_data.Rings", "model.width=8", "model.depth=1", "max_epochs=2", "trainer=cpu",
        "allow_targets=[my_norm,my_monitor,my_data]", "name=mine",
    ]  # fmt: skip
    assert "4 completed" in normexp(folder, *words)
    rows = (folder / "outputs" / "mine").rglob("metrics.csv")
    assert all("my_monitor/" in path.read_text() for path in rows)
    normexp(folder, "report", "outputs/mine")
    page = (folder / "outputs" / "mine" / "report" / "index.html").read_text()
    assert "my_norm" in page
    own = next(path for path in (folder / "outputs" / "mine" / "mlp").iterdir() if "my_norm" in path.name)
    assert "healthy" in normexp(folder, "check", str(own), "allow_targets=[my_norm,my_monitor,my_data]")
    words = ["verify", "--config-dir", "configs", "claim=M1", "allow_targets=[my_norm]", "out=verdicts"]
    assert "M1" in normexp(folder, *words)
    verdict = json.loads((folder / "verdicts" / "M1" / "verdict.json").read_text())
    assert verdict["n_seeds"] == 5
