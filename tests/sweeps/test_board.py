"""What a sweep prints: counts that stay whole, paths and commands that can be copied."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from fabricated import write_study
from rich.console import Console

from normexp.config.run_spec import RunSpec
from normexp.runs.table import find_runs
from normexp.sweeps.board import Board, few_seeds, show_end, show_plan
from normexp.sweeps.grid import show_answer_of
from normexp.sweeps.job import Job, Task
from normexp.sweeps.options import Options, SweepOptions
from normexp.sweeps.places import Inside

LONG = Path("/somewhere") / ("deep " * 40).strip()


def cell(state: str) -> Task:
    spec = RunSpec(
        {"trainer": {}, "threads": None, "seed": 0}, {"model": "mlp"}, "hash", LONG / "none-bs2-s0"
    )
    return Task("seed=0", Job(spec, [], 1, LONG / "0.log"), state, 1.0)


def test_paths_are_printed_in_one_piece(capsys):
    show_plan([cell("planned")], Inside(), Options(), LONG / "[logs]", Console(width=80))
    show_end([cell("crashed")], 1.0, Console(width=80))
    out = capsys.readouterr().out
    assert f"{LONG}/[logs]\n" in out
    assert "known when the first run ends" in out
    assert f"  {LONG}/0.log\n" in out


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ([0, 0], "1 seed has no interval"),
        ([1, 3, 1, 3], "2 seeds has no interval"),
        ([0, 1, 2, 0, 1, 2], "3 seeds ranks nothing"),
        ([0, 1, 2, 3, 4] * 2, None),
        ([0, 1], None),  # nothing is compared
    ],
)
def test_a_plan_warns_of_few_seeds_with_the_command_that_has_enough(seeds, said):
    cells = [cell("planned") for _ in seeds]
    for own, seed in zip(cells, seeds, strict=True):
        own.job = replace(own.job, spec=replace(own.spec, config={**own.spec.config, "seed": seed}))
    lines = list(few_seeds(cells, "normexp train -m norm=none,rmsnorm seed=1,3"))
    assert bool(lines) == bool(said)
    if said:
        assert said in lines[0]
        first = ",".join(map(str, sorted(set(seeds))))
        assert re.search(rf"train -m norm=none,rmsnorm 'seed={first},[\d,]+'$|seed={first},[\d,]+$", lines[1])
        assert len(lines[1].split("seed=")[1].split(",")) == 5


def test_suggested_commands_quote_their_path(capsys, tmp_path):
    root = write_study(tmp_path / "a study", ("none", "rmsnorm"), (2, 8), seeds=2)
    config = {"logger": "tensorboard", "outputs": str(tmp_path)}
    done = [cell("skipped") for _ in find_runs(root)[0]]
    for own, folder in zip(done, find_runs(root)[0], strict=True):
        own.job = replace(own.job, spec=replace(own.spec, folder=folder, config=config))
    show_answer_of(root, done, Console(width=80), SweepOptions())
    out = capsys.readouterr().out
    assert f"report: normexp report '{root}'\n" in out
    assert f"look:   tensorboard --logdir '{root}/means'\n" in out
    assert "norm \\ batch size ┃" in out


def test_a_line_of_progress_says_what_the_remaining_time_is_taken_from():
    text = io.StringIO()
    cells = [cell("planned") for _ in range(5)]
    for own in cells:
        own.seconds = 0.0
    board = Board(cells, 2, Console(file=text, width=120))
    cells[0].state, cells[0].seconds = "completed", 6.0
    board.update(cells[0])
    line = "1/5  completed   mlp/none-bs2-s0  6 s  about 12 s left if the others take as long as 1 finished run\n"
    assert line in text.getvalue()
