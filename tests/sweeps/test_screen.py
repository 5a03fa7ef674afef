"""What a sweep prints can be copied: paths are whole, and quoted in commands."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fabricated import write_study
from rich.console import Console

from normexp.config.run_spec import RunSpec
from normexp.runs.table import find_runs
from normexp.sweeps.cell import Cell
from normexp.sweeps.engine import show_answer_of
from normexp.sweeps.places.this_machine import Inside
from normexp.sweeps.screen import Board, show_end, show_plan
from normexp.training.train import make_console

LONG = Path("/somewhere") / ("deep " * 40).strip()


def cells(state: str, **model: str) -> list[Cell]:
    spec = RunSpec(
        {"trainer": {}, "model": model},
        {"model": "torchvision" if model else "mlp"},
        "hash",
        LONG / "none-bs2-s0",
    )
    return [Cell("seed=0", [spec], 2.0, state, 1.0, log=LONG / "0.log")]


def test_output_that_goes_to_a_file_is_wide(capsys):
    assert make_console().width == 160


def test_plan_names_the_folder_of_logs_in_one_piece(capsys):
    show_plan(cells("planned"), Inside(print), LONG / "[logs]", Console(width=80))
    assert f"{LONG}/[logs]\n" in capsys.readouterr().out


@pytest.mark.parametrize("state", ["completed", "failed"])
def test_a_failure_names_its_log_in_one_piece(capsys, state):
    show_end(cells(state), 1.0, Console(width=80))
    assert (f"  {LONG}/0.log\n" in capsys.readouterr().out) == (state == "failed")


def test_suggested_commands_quote_their_path(capsys, tmp_path):
    root = write_study(tmp_path / "a study", ("none", "rmsnorm"), (2, 8), seeds=2)
    done = cells("skipped")
    config = {"fast_dev_run": False, "logger": "tensorboard", "outputs": str(tmp_path)}
    done[0].specs = [replace(done[0].specs[0], folder=run, config=config) for run in find_runs(root)[0]]
    show_answer_of(root, done, Console(width=80))
    out = capsys.readouterr().out
    assert f"report: python scripts/report.py '{root}'\n" in out
    assert f"look:   tensorboard --logdir '{root}/means'\n" in out
    assert "norm \\ batch size ┃" in out


@pytest.mark.parametrize("width", [80, 120])
def test_a_board_keeps_its_counts_whole_on_a_narrow_screen(width):
    text = io.StringIO()
    running = [cell for _ in range(2) for cell in cells("running")]
    with Board(running, 2, Console(file=text, width=width, force_terminal=True, color_system=None)):
        pass
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue()).splitlines()[-1]
    assert last.startswith("runs ")
    assert " 0/2 0 done, 2 running" in last
    assert len(last) <= width


def test_a_line_of_progress_names_the_network_of_a_library():
    text = io.StringIO()
    (cell,) = cells("running", name="resnet18")
    with Board([cell], 1, Console(file=text, width=120)) as board:
        cell.state, cell.seconds = "completed", 3.0
        board.update(cell)
    assert "1/1  completed   torchvision resnet18/none-bs2-s0  3 s\n" in text.getvalue()
