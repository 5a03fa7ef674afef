"""Successive halving: which rates go on, runs that are cut are rows that say so, and another launch goes on."""

from pathlib import Path

import pytest
from forked import forked
from test_sweep_commands import SMALL, ledger

from normexp.runs import load_summaries
from normexp.runs.table import open_runs
from normexp.sweeps.halving import score, survivors

HALVING = [
    *SMALL, "norm=none", "lr=1e-6,1e-5,0.01,0.1", "seed=0,1", "--rates", "halving", "max_steps=20",
    "val_every_n_steps=5", "hydra.launcher.workers=0",
]  # fmt: skip


def test_the_better_half_goes_on_and_the_next_rate_above_the_best():
    assert survivors({0.1: 0.5, 0.2: 0.6, 0.3: 0.1, 0.4: 0.7}) == {0.4, 0.2}
    assert survivors({0.1: 0.7, 0.2: 0.1, 0.3: 0.5, 0.4: 0.4}) == {0.1, 0.3, 0.2}
    assert survivors({0.1: 0.5, 0.2: 0.5, 0.3: 0.0}) == {0.1, 0.2}


def test_score_is_the_first_validation_past_a_part_of_the_length(tmp_path):
    rows = ["5,0.5,0,val/accuracy,0.2", "10,1.0,0,val/accuracy,0.6", "15,1.5,0,val/accuracy,nan"]
    (tmp_path / "metrics.csv").write_text("step,epoch,seconds,metric,value\n" + "\n".join(rows) + "\n")
    steps, epochs = {"max_steps": 20, "max_epochs": 9}, {"max_steps": None, "max_epochs": 2}
    assert [score(tmp_path, steps, at) for at in (0.25, 0.3, 0.75, 0.9)] == [0.2, 0.6, 0.0, None]
    assert [score(tmp_path, epochs, at) for at in (0.25, 0.5)] == [0.2, 0.6]
    assert score(tmp_path / "none", steps, 0.25) is None


def states(outputs: Path) -> dict[float, list[str]]:
    found: dict[float, list[str]] = {}
    for cell in ledger(outputs)["cells"]:
        rate = next(word for word in cell["cell"].split() if word.startswith("lr="))
        found.setdefault(float(rate.removeprefix("lr=")), []).append(cell["state"])
    return found


@pytest.mark.integration
def test_sweep_cuts_rates_that_are_behind_says_so_and_goes_on_where_it_was(tmp_path):
    done = forked("-m", *HALVING, f"outputs={tmp_path}", COLUMNS="200")
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 cut" in done.stdout
    found = states(tmp_path)
    assert [found[rate] for rate in (1e-6, 1e-5)] == [["cut"] * 2] * 2
    assert found[0.1] == ["completed"] * 2
    table = load_summaries(tmp_path / "runs")
    assert set(table["lr"]) == {0.01, 0.1}
    left = open_runs(tmp_path / "runs", set(table["hash"]))
    assert len(left) == 4
    assert all(row["state"] == "cut by --rates=halving" and "of its length" in row["why"] for row in left)
    again = forked("-m", *HALVING, f"outputs={tmp_path}", COLUMNS="200")
    assert (again.returncode, again.stderr) == (0, "")
    assert [cell["state"] for cell in ledger(tmp_path)["cells"]].count("cut") == 4
    whole = forked(
        "-m", *(word for word in HALVING if word not in ("--rates", "halving")), f"outputs={tmp_path}"
    )
    assert (whole.returncode, whole.stderr) == (0, "")
    assert len(load_summaries(tmp_path / "runs")) == 8


@pytest.mark.integration
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--rates", "some"], "rates=some: must be halving"),
        (["--rates", "halving", "--place", "slurm"], "rates=halving: runs pause"),
    ],
)
def test_what_halving_cannot_do_is_one_line(tmp_path, more, said):
    done = forked("-m", *SMALL, "norm=none", "lr=0.1,0.01", *more, f"outputs={tmp_path}")
    assert done.returncode != 0
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
