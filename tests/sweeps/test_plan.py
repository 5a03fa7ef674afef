"""The plan of a sweep: every cell checked, finished ones skipped, mistakes named."""

import json
import types
from collections import Counter
from pathlib import Path

import pytest
from fabricated import config, write_run
from rich.console import Console

from normexp import NUMERICS
from normexp.config.identity import config_hash, default_folder
from normexp.config.run_spec import RunSpec
from normexp.format import duration
from normexp.sweeps import grid as estimate
from normexp.sweeps.cell import Cell, _reason
from normexp.sweeps.grid import plan
from normexp.sweeps.places.this_machine import Inside
from normexp.sweeps.screen import Board, axes, counts, show_plan

CHOICES = {"model": "mlp", "norm": "none"}


def spec(own: dict) -> RunSpec:
    digest = config_hash(own)
    return RunSpec(own | {"fast_dev_run": False}, CHOICES, digest, default_folder(own, CHOICES, digest))


@pytest.fixture
def make(monkeypatch):
    """The plan of some configurations, with parts that have no network; `make.built` are those that were built."""
    built: list[dict] = []

    def build(spec: RunSpec):
        built.append(spec.config)
        if spec.config["batch_size"] == 1:
            raise ValueError("batch_size=1: one value per channel")
        return types.SimpleNamespace(config=spec.config)

    monkeypatch.setattr(estimate, "build", build)
    monkeypatch.setattr(estimate.Estimates, "_seconds", lambda self, parts: 2.4)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)

    def made(configs: list[dict]) -> list[Cell]:
        names = [f"batch_size={c['batch_size']} seed={c['seed']}" for c in configs]
        return plan(names, [[spec(one)] for one in configs])

    made.built = built
    return made


def test_cells_that_differ_in_seed_alone_are_built_once(make, tmp_path):
    configs = [
        config("none", batch_size, seed, outputs=str(tmp_path)) for batch_size in (2, 8) for seed in range(3)
    ]
    cells = make(configs)
    assert [own["batch_size"] for own in make.built] == [2, 8]
    assert len({cell.folder for cell in cells}) == 6
    assert {cell.state for cell in cells} == {"planned"}
    assert cells[0].estimate == 2.4
    assert cells[0].memory > 2**20


def test_finished_runs_are_skipped_by_identity(make, tmp_path):
    write_run(tmp_path / "study", "none", 2, 0)
    configs = [config("none", 2, seed, outputs=str(tmp_path)) for seed in range(2)]
    assert [cell.state for cell in make(configs)] == ["skipped", "planned"]


def test_finished_runs_with_other_numerics_are_skipped_and_named(make, tmp_path, capsys):
    for seed, numerics in enumerate((7, 7, NUMERICS)):
        path = write_run(tmp_path / "study", "none", 2, seed) / "summary.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"numerics": numerics}))
    cells = make([config("none", 2, seed, outputs=str(tmp_path)) for seed in range(4)])
    assert [cell.state for cell in cells] == ["skipped"] * 3 + ["planned"]
    show_plan(cells, Inside(print), tmp_path, Console(width=160))
    said = " ".join(capsys.readouterr().out.split())
    assert "finished 3 runs, skipped" in said
    assert f"of these 2 runs with numerics=7, not {NUMERICS}; name=<another> trains them again" in said


def test_broken_cells_are_named_once_for_each_error(make, tmp_path):
    configs = [config("none", batch_size, seed) for batch_size in (1, 8) for seed in range(2)]
    with pytest.raises(
        ValueError, match="2 of 4 cells cannot run: batch_size=1: one value per channel"
    ) as caught:
        make(configs)
    assert "[cell batch_size=1 seed=0 and 1 more]" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_cells_that_are_one_run_are_refused(make):
    configs = [config("none", 2, 0), config("none", 2, 0, threads=2)]
    with pytest.raises(ValueError, match=r"are the same run.* make no axis of a sweep"):
        make(configs)


def cell(state: str, seconds: float | None, tmp_path: Path, **more) -> Cell:
    folder = tmp_path / "mlp" / "none-bs2-s0-12345678"
    own = RunSpec({"fast_dev_run": False, "model": {}}, CHOICES, "hash", folder)
    return Cell("norm=none seed=0", [own], 2.0, state, seconds, **more)


@pytest.mark.parametrize(
    ("exit_code", "stopped", "state"),
    [
        (1, False, "failed"),
        (-9, False, "failed"),
        (143, False, "interrupted"),
        (1, True, "interrupted"),
        (0, False, "failed"),
    ],
)
def test_process_that_leaves_no_summary_is_no_run(tmp_path, exit_code, stopped, state):
    log = tmp_path / "x.log"
    log.write_text("Traceback\nError: loss went missing\n\n")
    ended = cell("running", None, tmp_path, log=log)
    ended.finish(exit_code, 1.0, stopped=stopped)
    assert ended.state == state
    if exit_code == 1 and not stopped:
        assert ended.error == "loss went missing"
    if exit_code == -9:
        assert ended.error.startswith("killed by signal 9; the last line of its log: Error: loss")


def test_remaining_time_corrects_the_estimate_by_what_runs_took(tmp_path):
    from rich.console import Console

    cells = [cell("planned", None, tmp_path) for _ in range(5)]
    board = Board(cells, 2, Console(quiet=True))
    cells[0].state, cells[0].seconds = "completed", 6.0
    board.update(cells[0])
    # Runs take three times as long as estimated, two at a time.
    assert board.remaining() == pytest.approx(3 * (4 * 2.0) / 2)
    assert counts(Counter(cell.state for cell in cells)) == "1 done"


def test_axes_and_durations_read_well(tmp_path):
    first, second = cell("planned", None, tmp_path), cell("planned", None, tmp_path)
    second.name = "norm=none seed=1"
    assert axes([first, second]) == {"norm": ["none"], "seed": ["0", "1"]}
    assert [duration(s) for s in (0.4, 5, 61, 7300)] == ["0.4 s", "5 s", "1:01 min", "2:01 h"]


def test_a_log_that_was_moved_away_is_named_with_its_remedy(tmp_path):
    reason = _reason(1, tmp_path / "logs" / "one.log")
    assert reason.endswith("one.log is not there; if the study was moved during the sweep, move it back")
    (tmp_path / "two.log").write_text("Error: seed=x: must be a number\n")
    assert _reason(1, tmp_path / "two.log") == "seed=x: must be a number"
    assert _reason(-9, tmp_path / "two.log").startswith("killed by signal 9; ")


def test_cells_that_cannot_run_are_left_out_and_named_where_asked(make, tmp_path):
    said = []
    configs = [config("none", size, 0, outputs=str(tmp_path)) for size in (1, 2)]
    names = [f"batch_size={c['batch_size']}" for c in configs]
    (cell,) = plan(names, [[spec(one)] for one in configs], skip=said.append)
    assert cell.name == "batch_size=2"
    assert said == [
        "left out: 1 of 2 cells cannot run: batch_size=1: one value per channel [cell batch_size=1]"
    ]
    with pytest.raises(ValueError, match="1 of 1 cells cannot run"):
        plan(names[:1], [[spec(configs[0])]], skip=said.append)
