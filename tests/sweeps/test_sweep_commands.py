"""Sweeps as a person types them: planned, run, skipped, refused, resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked import forked

from normexp.runs import load_summaries

ROOT = Path(__file__).parents[2]
SLURM = (signal.SIGUSR1, signal.SIGUSR2)
SMALL = ["model.depth=1", "model.width=8", "max_steps=20", "batch_size=32", "monitor=none", "name=runs"]


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "train.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def sweep(*arguments: str) -> tuple[int, str, str]:
    process = start("-m", *SMALL, *arguments)
    out, err = process.communicate()
    return process.returncode, out, err


def ledger(outputs: Path) -> dict:
    return json.loads(max(outputs.glob("runs/.sweeps/*/sweep.json")).read_text())


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
    assert "estimate" in done.stdout
    means = tmp_path / "runs" / "means"
    assert f"look:   tensorboard --logdir {means}\n" in done.stdout
    assert "none      │" in done.stdout
    assert "Seen with mlp on digits, one learning rate" in done.stdout
    assert sorted(path.name for path in means.iterdir()) == ["layernorm", "none"]
    table = load_summaries(tmp_path / "runs", {"norm": ["none", "layernorm"], "seed": [0, 1]})
    assert list(table["execution.threads"]) == [max(1, len(os.sched_getaffinity(0)) // 2)] * 4
    # each run's summary, log and events are its own
    assert sorted(table["command"].str.contains("norm=layernorm").tolist()) == [False, False, True, True]
    logs = list(tmp_path.glob("runs/.sweeps/*/logs/mlp/*.log"))
    assert len(logs) == len(runs := events("mlp/*")) == 4
    again = forked(*arguments, "hydra.launcher.workers=0", COLUMNS="200")
    assert (again.returncode, again.stderr) == (0, "")
    assert "4 runs, skipped" in again.stdout
    assert {cell["state"] for cell in ledger(tmp_path)["cells"]} == {"skipped"}
    assert (events("mlp/*"), len(events("means/*"))) == (runs, 2)


def test_mistake_anywhere_in_the_grid_starts_nothing(tmp_path):
    words = ["norm=none,groupnorm", "norm.num_groups=3", f"outputs={tmp_path}/outputs"]
    done = forked("-m", *SMALL, *words)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert not (tmp_path / "outputs").exists()


@pytest.mark.slow
def test_failing_run_is_kept_with_its_traceback_and_the_others_run(tmp_path):
    # the run's folder is in the way: nothing that the plan could see
    assert sweep("norm=none", "seed=0,1", f"outputs={tmp_path}")[0] == 0
    for folder in tmp_path.glob("runs/mlp/none-bs32-s0-*"):
        (folder / "summary.json").unlink()
        (folder / ".hydra" / "identity").write_text("0" * 64)
    code, out, _err = sweep("norm=none", "seed=0,1,2", f"outputs={tmp_path}")
    assert code == 1
    states = {cell["cell"]: cell["state"] for cell in ledger(tmp_path)["cells"]}
    assert states == {"seed=0": "failed", "seed=1": "skipped", "seed=2": "completed"}
    assert "holds another run" in out
    log = Path(next(cell["log"] for cell in ledger(tmp_path)["cells"] if cell["state"] == "failed"))
    assert "Traceback" in log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_interrupted_sweep_goes_on_where_it_was(tmp_path, number):
    arguments = [
        "-m",
        *SMALL,
        "seed=0,1,2",
        "max_steps=3000",
        "hydra.launcher.workers=1",
        f"outputs={tmp_path}",
    ]
    process = start(*arguments)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("runs/mlp/*-s1-*/checkpoints/last.ckpt")) and time.monotonic() < deadline:
        time.sleep(0.05)
    # Slurm's reach all processes, the others the sweep alone.
    os.killpg(process.pid, number) if number in SLURM else process.send_signal(number)
    out, _ = process.communicate()
    assert process.returncode == 128 + number
    assert len(list(tmp_path.glob("runs/mlp/*-s1-*/checkpoints/last.ckpt"))) == 1
    assert "the same command goes on from here" in out
    assert [cell["state"] for cell in ledger(tmp_path)["cells"]] == ["completed", "interrupted", "planned"]
    process = start(*arguments)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "1 run, skipped" in out
    assert len(load_summaries(tmp_path / "runs", {"seed": range(3)})) == 3


@pytest.mark.slow
def test_two_sweeps_at_once_do_not_touch_each_other(tmp_path):
    processes = [
        start("-m", *SMALL, "seed=0,1", f"norm={norm}", f"outputs={tmp_path}") for norm in ("none", "rmsnorm")
    ]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0]
    assert len(list(tmp_path.glob("runs/.sweeps/*"))) == 2
    assert len(load_summaries(tmp_path / "runs", {"norm": ["none", "rmsnorm"], "seed": [0, 1]})) == 4


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 0])
def test_two_identical_sweeps_at_once_share_the_runs(tmp_path, workers):
    arguments = [*SMALL, "max_steps=400", "seed=0,1,2,3", f"outputs={tmp_path}"]
    processes = [start("-m", *arguments, f"hydra.launcher.workers={workers}") for _ in range(2)]
    outputs = [process.communicate() for process in processes]
    assert [(process.returncode, err) for process, (_, err) in zip(processes, outputs, strict=True)] == [
        (0, "")
    ] * 2
    ledgers = [json.loads(path.read_text()) for path in tmp_path.glob("runs/.sweeps/*/sweep.json")]
    ends = zip(*([cell["state"] for cell in ledger["cells"]] for ledger in ledgers), strict=True)
    assert {tuple(sorted(states)) for states in ends} <= {
        ("completed", "skipped"),
        ("completed", "completed"),
    }
    assert len(load_summaries(tmp_path / "runs", {"seed": range(4)})) == 4
    # Who resumes, or trains what is trained, writes a second file of events.
    assert len(list(tmp_path.glob("runs/mlp/*/events.out.tfevents.*"))) == 4
    assert not list(tmp_path.rglob(".lock"))


@pytest.mark.slow
def test_run_in_a_process_equals_the_run_alone(tmp_path):
    """Also the second run of a process."""
    one = "hydra.launcher.workers=1"
    words = [one, "norm=batchnorm", "seed=0,1", "threads=1"]
    assert sweep(*words, f"outputs={tmp_path / 'swept'}")[0] == 0
    for workers in ("alone", "inside"):
        flags = ["-m", "hydra.launcher.workers=0"] if workers == "inside" else []
        process = start(*flags, *SMALL, *words[1:2], "seed=1", *words[3:], f"outputs={tmp_path / workers}")
        process.communicate()
        assert process.returncode == 0
    tables = [
        load_summaries(tmp_path / name / "runs", {"seed": [1]}) for name in ("swept", "alone", "inside")
    ]
    losses = {table["test/loss"].iloc[0] for table in tables}
    assert len(losses) == 1
