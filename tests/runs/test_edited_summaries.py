"""`summary.json` edited by hand: each value is read or refused in one line that names file, key and remedy."""

import copy
import io
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from normexp.cli import report
from normexp.cli.report import show
from normexp.config.identity import older
from normexp.config.run_spec import saved_spec
from normexp.runs import load, load_summaries, read_summary
from normexp.runs.summary import digests
from normexp.training.screen import asked_otherwise, show_result

VALUES = [
    None, True, -1, 0, 3, 10**30, 1e308, 0.5, "", "x", "nan", "\x1b[2J", "[/red]", "<script>", "$x_{", "a\nb",
    "a" * 200_000, [], [1, 2], [[]], [None], {}, {"a": {"b": 1}}, {"": None}, {"_target_": "x"},
]  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    """Two finished runs, and the parts of the first."""
    from normexp.config.run_spec import specs
    from normexp.training.parts import build
    from normexp.training.train import launch

    root = tmp_path_factory.mktemp("study")
    small = [
        "trainer=cpu",
        "monitor=none",
        "model.depth=1",
        "model.width=4",
        "max_steps=2",
        f"outputs={root}",
    ]
    all_parts = [build(*specs([*small, f"seed={seed}"])) for seed in (0, 1)]
    for parts in all_parts:
        launch(parts)
    return root / "runs", all_parts[0]


def places(node: Any, path: tuple = ()) -> Iterator[tuple]:
    """Each key, also those inside."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield (*path, key)
            yield from places(value, (*path, key))


def edited(folder: Path, summary: dict[str, Any], path: tuple, value: Any) -> str:
    """The edited summary, by one who writes its digest anew."""
    new = copy.deepcopy(summary)
    place = new
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    if path[0] != "digests":
        new["digests"] = digests(folder, new)
    return json.dumps(new)


def use(root: Path, folder: Path, parts: Any, *, figures: bool) -> None:
    """All that reads a finished run."""
    summary = read_summary(folder)
    console = Console(file=io.StringIO())
    load_summaries(root)
    load(root)
    show_result(summary, folder, console)
    show(str(folder), {name: 0.0 for name in summary["metrics"]}, summary["metrics"])
    asked_otherwise(parts.config, parts.choices, summary), older(summary)
    if figures:
        saved_spec(folder, summary, [])
        assert report.main([str(root)]) in (0, 2)


def check(study: tuple[Path, Any], edits: list[tuple[tuple, Any]], *, figures: bool, copy_to: Path) -> int:
    """How many edits were refused; raises for a refusal of several lines or none of the file, and for other errors."""
    root = copy_to / "runs"
    shutil.copytree(study[0], root)
    (first, _) = sorted(path.parent for path in root.rglob("summary.json"))
    whole = json.loads((first / "summary.json").read_text())
    refused, wrong = 0, []
    for path, value in edits:
        (first / "summary.json").write_text(edited(first, whole, path, value))
        try:
            use(root, first, study[1], figures=figures)
        except ValueError as error:
            refused += 1
            text = str(error)
            named = str(root) in text or "path=" in text
            if "\n" in text or not named or len(text) > 1000 or not text.isprintable():
                wrong.append((path, str(value)[:40], text[:300]))
        except Exception as error:
            wrong.append((path, str(value)[:40], repr(error)[:300]))
    assert not wrong, f"{len(wrong)} of {len(edits)}: " + "\n".join(map(str, wrong[:60]))
    return refused


def all_edits(root: Path) -> list[tuple[tuple, Any]]:
    summary = json.loads(next(root.rglob("summary.json")).read_text())
    return [(path, value) for path in places(summary) for value in VALUES]


@pytest.mark.integration
def test_sample_of_edited_values(study, tmp_path, capsys):
    edits = random.Random(0).sample(all_edits(study[0]), 60)
    assert check(study, edits, figures=False, copy_to=tmp_path) > 10


@pytest.mark.slow
def test_every_edited_value(study, tmp_path, capsys):
    edits = all_edits(study[0])
    assert len(edits) > 1200
    assert check(study, edits, figures=False, copy_to=tmp_path) > 300


@pytest.mark.slow
def test_report_of_edited_values(study, tmp_path, capsys):
    edits = random.Random(1).sample(all_edits(study[0]), 60)
    check(study, edits, figures=True, copy_to=tmp_path)
