"""Cells of a sweep that ask for replicas; cells that do not are never trained together."""

import signal
import time
from pathlib import Path

import pytest
from forked import forked
from test_sweep_commands import SMALL, ledger, start, sweep

from normexp.runs import load_summaries

NORMS = ["norm=none,layernorm", "trainer=float64"]
TWO_NORMS = [*NORMS, "hydra.launcher.workers=2"]


def states(outputs) -> list[str]:
    return [cell["state"] for cell in ledger(outputs)["cells"]]


@pytest.mark.integration
def test_cells_of_replicas_equal_a_sweep_over_seeds_run_by_run(tmp_path):
    tables = {}
    for how, axis in (("alone", "seed=0,1"), ("replica", "replicas=2")):
        here = ["hydra.launcher.workers=0", f"outputs={tmp_path / how}"]
        done = forked("-m", *SMALL, *NORMS, axis, *here, COLUMNS="200")
        assert (done.returncode, done.stderr) == (0, "")
        assert ("2 cells of 4 runs" if how == "replica" else "4 runs") in done.stdout
        grid = {"norm": ["none", "layernorm"], "seed": range(2)}
        tables[how] = load_summaries(tmp_path / how / "runs", grid)
        assert set(tables[how]["execution.mode"]) == {how}
    together, alone = tables["replica"], tables["alone"]
    assert set(together["execution.replicas"]) == {2}
    assert together["hash"].tolist() == alone["hash"].tolist()
    for metric in ("train/loss", "val/loss", "test/loss", "test/accuracy"):
        assert together[metric].tolist() == pytest.approx(alone[metric].tolist(), rel=1e-10, abs=1e-10)


@pytest.mark.slow
def test_cell_goes_on_with_the_replicas_that_are_missing(tmp_path):
    arguments = [*TWO_NORMS, "replicas=2", f"outputs={tmp_path}"]
    assert sweep(*TWO_NORMS, "seed=0", f"outputs={tmp_path}")[0] == 0
    code, out, err = sweep(*arguments)
    assert (code, err) == (0, "")
    assert "2 done" in out
    table = load_summaries(tmp_path / "runs", {"norm": ["none", "layernorm"], "seed": range(2)})
    assert table.sort_values(["norm", "seed"])["execution.mode"].tolist() == ["alone", "replica"] * 2
    code, out, _err = sweep(*arguments)
    assert (code, states(tmp_path)) == (0, ["skipped"] * 2)


@pytest.mark.slow
def test_interrupted_cells_go_on_as_replicas(tmp_path):
    arguments = ["-m", *TWO_NORMS, "replicas=4", "model.depth=1", "model.width=8", "max_steps=3000"]
    arguments += [
        "val_every_n_steps=500",
        "batch_size=32",
        "monitor=none",
        "name=runs",
        f"outputs={tmp_path}",
    ]
    process = start(*arguments)
    deadline = time.monotonic() + 300
    begun = "runs/mlp/*-s3-*/checkpoints/last.ckpt"
    while len(list(tmp_path.glob(begun))) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 128 + signal.SIGINT
    assert set(states(tmp_path)) == {"interrupted"}
    process = start(*arguments)
    _out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    log = Path(ledger(tmp_path)["cells"][0]["log"])
    assert "4, trained together, resuming at step" in log.read_text()
    table = load_summaries(tmp_path / "runs", {"norm": ["none", "layernorm"], "seed": range(4)})
    assert set(table["execution.mode"]) == {"replica"}
    assert set(table["steps"]) == {3000}


@pytest.mark.slow
def test_failed_replica_stops_its_cell_and_the_others_run(tmp_path):
    assert sweep(*TWO_NORMS, "replicas=3", f"outputs={tmp_path}")[0] == 0
    for folder in tmp_path.glob("runs/mlp/none-*"):  # the folder of one is in the way
        (folder / "summary.json").unlink()
        if "-s0-" in folder.name:
            (folder / ".hydra" / "identity").write_text("0" * 64)
    code, out, _err = sweep(*TWO_NORMS, "replicas=3", f"outputs={tmp_path}")
    assert code == 1
    assert states(tmp_path) == ["failed", "skipped"]
    assert "holds another run" in out
