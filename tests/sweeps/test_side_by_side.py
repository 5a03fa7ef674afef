"""Runs of a sweep that share a process: as when each has its own, also after an interruption or a failure."""

import signal
import time
from pathlib import Path

import pytest
from test_sweep_commands import ledger, start, sweep

from normexp.build import build, compose
from normexp.runs import load_summaries
from normexp.sweeps.beside import beside

TWO_KINDS = ["norm=none,layernorm", "seed=range(0,4)", "trainer=float64", "hydra.launcher.workers=2"]
MODES = ("execution.mode", "execution.replicas")


def states(outputs) -> list[str]:
    return [cell["state"] for cell in ledger(outputs)["cells"]]


def test_sweep_side_by_side_equals_the_sweep_run_by_run(tmp_path):
    tables = {}
    for how in ("auto", "off"):
        code, out, err = sweep(*TWO_KINDS, f"hydra.launcher.replicas={how}", f"outputs={tmp_path / how}")
        assert (code, err) == (0, "")
        assert ("up to 4 side by side in a process, 2 of 2 processes at a time" in out) == (how == "auto")
        assert "8/8" in out  # runs are counted, not processes
        grid = {"norm": ["none", "layernorm"], "seed": range(4)}
        tables[how] = load_summaries(tmp_path / how / "runs", grid)
    together, alone = tables["auto"], tables["off"]
    assert set(together["execution.mode"]) == {"replica"}
    assert set(together["execution.replicas"]) == {4}
    assert set(alone["execution.mode"]) == {"alone"}
    assert together["hash"].tolist() == alone["hash"].tolist()
    for metric in ("train/loss", "val/loss", "test/loss", "test/accuracy"):
        assert together[metric].tolist() == pytest.approx(alone[metric].tolist(), rel=1e-10, abs=1e-10)
    for _, row in together.iterrows():  # each run's command is its own
        assert f"seed={row['seed']}" in row["command"].split()
    logs = {cell["log"] for cell in ledger(tmp_path / "auto")["cells"]}
    assert len(logs) == 2
    assert all(".and-3-more.log" in log for log in logs)


@pytest.mark.slow
def test_interrupted_sweep_goes_on_side_by_side(tmp_path):
    arguments = [
        "-m",
        *TWO_KINDS,
        "model.depth=1",
        "model.width=8",
        "max_steps=3000",
        "val_every_n_steps=500",
    ]
    arguments += ["batch_size=32", "monitor=none", f"outputs={tmp_path}"]
    process = start(*arguments)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("runs/mlp/*-s3-*/metrics.csv")) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 128 + signal.SIGINT
    assert set(states(tmp_path)) == {"interrupted"}
    process = start(*arguments)
    _out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    log = Path(ledger(tmp_path)["cells"][0]["log"])
    assert "4, side by side, resuming at step" in log.read_text()
    table = load_summaries(tmp_path / "runs", {"norm": ["none", "layernorm"], "seed": range(4)})
    assert set(table["execution.mode"]) == {"replica"}
    assert set(table["steps"]) == {3000}


@pytest.mark.slow
def test_failure_of_one_run_leaves_its_neighbours_alone(tmp_path):
    assert sweep(*TWO_KINDS, f"outputs={tmp_path}")[0] == 0
    for folder in tmp_path.glob("runs/mlp/none-*"):  # the folder of one is in the way, the others start anew
        (folder / "summary.json").unlink()
        if "-s0-" in folder.name:
            (folder / ".hydra" / "identity").write_text("0" * 64)
    code, out, _err = sweep(*TWO_KINDS, f"outputs={tmp_path}", "hydra.launcher.workers=1")
    assert code == 1
    assert "4 runs that failed side by side are tried one by one" in out
    assert states(tmp_path) == ["failed", *["completed"] * 3, *["skipped"] * 4]
    assert "holds another run" in out


@pytest.mark.parametrize(
    ("overrides", "faster", "why_not"),
    [
        (["model.width=64"], True, None),
        (["model.width=64", "norm=batchnorm_noisy"], True, "vmap"),
        (["model.width=64", "compile=true"], True, "compile=true"),
        (["model.width=64", "run_dir=here"], True, "a folder of its own"),
        (["model.width=64", "monitor=full"], False, None),
        (["model.width=2048"], False, None),
    ],
)
def test_what_can_be_trained_side_by_side_and_pays(overrides, faster, why_not):
    found = beside(build(*compose(["trainer=cpu", *overrides])))
    assert bool(found.speedups) == faster
    assert (found.why_not is None) == (why_not is None)
    assert (why_not or "") in (found.why_not or "")


def test_bad_option_is_one_line():
    code, _out, err = sweep("norm=none", "seed=0,1", "hydra.launcher.replicas=16")
    assert code == 2
    assert "hydra.launcher.replicas=16: must be auto or off" in err


def test_sweep_over_replicas_is_finished_when_all_runs_of_a_cell_are(tmp_path):
    arguments = ["norm=none,layernorm", "replicas=2", f"outputs={tmp_path}"]
    assert (
        sweep("norm=none,layernorm", "seed=0", "hydra.launcher.replicas=off", f"outputs={tmp_path}")[0] == 0
    )
    code, out, err = sweep(*arguments)
    assert (code, err) == (0, "")
    assert "2 done" in out
    load_summaries(tmp_path / "runs", {"norm": ["none", "layernorm"], "seed": range(2)})
    code, out, _err = sweep(*arguments)
    assert (code, states(tmp_path)) == (0, ["skipped"] * 2)


def test_norm_over_parts_of_the_batch_is_rehearsed_at_its_size():
    overrides = ["trainer=cpu", "model.width=64", "norm=batchnorm_ghost", "norm.virtual_batch_size=16"]
    assert beside(build(*compose(overrides))).why_not is None
