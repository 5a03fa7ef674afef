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
from normexp.config.folder import ALLOWED, VARIABLE, own_folder, use_folder
from normexp.config.run_spec import resolved, specs
from normexp.training.build import build

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


PARTS = """
import sys
import torch
from torch import nn
from normexp.monitors import Monitor


class Plain(nn.Module):
    def __init__(self, num_features, channel_dim=1, *, layer=1):
        super().__init__()
        self.num_features = num_features


class Raises(Plain):
    def forward(self, x):
        raise ValueError("no way")

class Exits(Plain):
    def forward(self, x):
        sys.exit(0)

class Late(Plain):
    def forward(self, x):
        self.gain = nn.Parameter(torch.ones(self.num_features))
        return x * self.gain

class InEachPass(Plain):
    def forward(self, x):
        return nn.LayerNorm(self.num_features, device=x.device)(x)

class Lazy(Plain):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.inner = nn.LazyBatchNorm1d()

class Speechless(nn.Module):
    def __init__(self, input_shape, num_classes, norm):
        super().__init__()


class Unplaced(Speechless):
    accepts = "image"

    def __init__(self, input_shape, num_classes, norm):
        super().__init__(input_shape, num_classes, norm)
        self.gain = nn.Parameter(torch.ones(1))

    def sites(self):
        return [1, 2]


class Untrained(Unplaced):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.requires_grad_(False)


class Without(Monitor):
    def compute(self, module, batches, step):
        return {}


class Foreign:
    def __init__(self, every_n_steps):
        pass


class Nothing:
    def __init__(self, params, lr):
        pass
"""
REFUSED = [
    ("norm", "Raises", r"model: MLP fails on a batch of \(64, 1, 8, 8\): ValueError: no way"),
    ("norm", "Exits", "model: MLP fails on a batch .*SystemExit"),
    (
        "norm",
        "Late",
        "makes a parameter in its forward pass, gain of Late, .*make all layers in its constructor",
    ),
    ("norm", "InEachPass", "makes a parameter in its forward pass, .* of LayerNorm"),
    ("norm", "Lazy", "MLP has lazy layers without a size"),
    ("model", "Speechless", "accepts=None: says not what it reads; write accepts"),
    ("model", "Unplaced", r"Unplaced fails in sites\(\): TypeError"),
    ("model", "Untrained", "Untrained has no parameter that trains"),
    ("monitor", "Without", r"monitor.part: Without fails in keys\(\)"),
    ("monitor", "Foreign", "monitor.part: Foreign is none; derive it from normexp.monitors.Monitor"),
    ("optimizer", "Nothing", "optimizer: Nothing fails with its options"),
]


@pytest.mark.parametrize(("group", "name", "message"), REFUSED, ids=[name for _, name, _ in REFUSED])
def test_a_part_that_cannot_work_is_one_line_before_training(group, name, message, folder, monkeypatch):
    module = f"parts_{name.lower()}"
    (folder / f"{module}.py").write_text(PARTS)
    (folder / "configs" / group).mkdir(exist_ok=True)
    node = f"_target_: {module}.{name}\n"
    text = f"part: {{_target_: {module}.{name}, every_n_steps: 1}}\n" if group == "monitor" else node
    text += {"optimizer": "lr: ${lr}\n_partial_: true\n", "monitor": ""}.get(group, "_partial_: true\n")
    (folder / "configs" / group / "part.yaml").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv(ALLOWED, module)
    use_folder("configs")
    with refused(message):
        build(
            *specs(
                [f"{group}=part", "lr=0.1", "trainer=cpu", *([] if group == "monitor" else ["monitor=none"])]
            )
        )


def test_a_choice_of_the_folder_does_not_take_the_name_of_one_of_normexps(folder):
    """Hydra would silently take the other one."""
    (folder / "configs" / "norm" / "my_norm.yaml").rename(folder / "configs" / "norm" / "batchnorm.yaml")
    use_folder("configs")
    compose(["norm=layernorm"])  # which has no other
    with refused("norm=batchnorm is normexp's own; name the file my_batchnorm.yaml"):
        compose(["norm=batchnorm"])


def test_an_interpolation_without_a_value_names_its_key(folder):
    (folder / "configs" / "norm" / "my_norm.yaml").write_text("_target_: my_norm.MyNorm\neps: ${nothing}\n")
    use_folder("configs")
    with refused("norm.eps: Interpolation key 'nothing' not found"):
        resolved(compose(["norm=my_norm"])[0])


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
