"""Sweeps as a person types them: planned, run, skipped, refused, resumed."""

import pytest
from forked import forked

from normexp.runs import load_summaries

SMALL = ["model.depth=1", "model.width=8", "max_steps=20", "batch_size=32", "monitor=none", "name=runs"]


@pytest.mark.integration
def test_sweep_runs_its_grid_and_the_same_command_again_runs_nothing(tmp_path):
    """A sweep ends with the means of each arm."""

    def events(pattern: str) -> set[str]:
        return {str(path.relative_to(tmp_path)) for path in tmp_path.glob(f"runs/{pattern}/events.*")}

    arguments = ["-m", *SMALL, "norm=none,layernorm", "seed=0,1", "logger=[tensorboard]"]
    arguments.append(f"outputs={tmp_path}")
    done = forked(*arguments, COLUMNS="200")
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 runs" in done.stdout
    means = tmp_path / "runs" / "means"
    assert f"look:   tensorboard --logdir {means}\n" in done.stdout
    assert "none      │" in done.stdout
    assert "Seen with mlp on digits, batch size 32, one learning rate" in " ".join(done.stdout.split())
    assert sorted(path.name for path in means.iterdir()) == ["layernorm", "none"]
    table = load_summaries(tmp_path / "runs", {"norm": ["none", "layernorm"], "seed": [0, 1]})
    assert list(table["execution.threads"]) == [1] * 4
    # each run's summary, log and events are its own
    assert sorted(table["command"].str.contains("norm=layernorm").tolist()) == [False, False, True, True]
    logs = list(tmp_path.glob("runs/.sweeps/*/logs/mlp/*.log"))
    assert len(logs) == len(runs := events("mlp/*")) == 4
    again = forked(*arguments, "hydra.launcher.workers=0", COLUMNS="200")
    assert (again.returncode, again.stderr) == (0, "")
    assert "4 runs, skipped" in again.stdout
    assert (events("mlp/*"), len(events("means/*"))) == (runs, 2)
