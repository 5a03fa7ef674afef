"""`summary.json` of a stranger: each value is read or refused in one line that names file, key and remedy."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fabricated import write_study

from normexp.cli.main import run
from normexp.runs import load, load_summaries

VALUES = [
    None, True, -1, 0, 3, 10**30, 1e308, float("inf"), 0.5, "", "x", "nan", "\x1b[2J", "[/red]", "<script>", "$x_{",
    "a\nb", "a" * 200_000, [], [1, 2], [[]], [None], {}, {"a": {"b": 1}}, {"": None}, {"_target_": "x"},
]  # fmt: skip


@pytest.fixture
def study(tmp_path: Path) -> Path:
    return write_study(tmp_path / "study", ("batchnorm",), (8,), seeds=2)


def places(node: Any, path: tuple = ()) -> Iterator[tuple]:
    """Each key, also those inside."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield (*path, key)
            yield from places(value, (*path, key))


def edited(summary: dict[str, Any], path: tuple, value: Any) -> str:
    """The summary with another value at one place."""
    new = copy.deepcopy(summary)
    place = new
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(new)


def check(study: Path, count: int | None, *, page: bool) -> int:
    """How many edits were refused; fails for a refusal of several lines or none of the file, and for other errors."""
    first = min(path.parent for path in study.rglob("summary.json"))
    whole = json.loads((first / "summary.json").read_text())
    edits = [(path, value) for path in places(whole) for value in VALUES]
    edits = random.Random(0).sample(edits, count) if count else edits
    refused, wrong = 0, []
    for path, value in edits:
        (first / "summary.json").write_text(edited(whole, path, value))
        try:
            load_summaries(study)
            load(study)
            if page:
                assert run("report", [str(study)]) in (0, 2)
        except ValueError as error:
            refused += 1
            text = str(error)
            named = str(study) in text or "path=" in text
            if "\n" in text or not named or len(text) > 1000 or not text.isprintable():
                wrong.append((path, str(value)[:40], text[:300]))
        except Exception as error:
            wrong.append((path, str(value)[:40], repr(error)[:300]))
    assert not wrong, f"{len(wrong)} of {len(edits)}: " + "\n".join(map(str, wrong[:60]))
    return refused


def test_sample_of_edited_values(study):
    assert check(study, 200, page=False) > 30


@pytest.mark.slow
def test_every_edited_value(study):
    assert check(study, None, page=False) > 300


@pytest.mark.slow
def test_report_of_edited_values(study, capsys):
    check(study, 60, page=True)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("config", "seed"), "x", "config.seed='x': must be a whole number"),
        (("metrics", "test/accuracy"), 2.0, "metrics.test/accuracy=2: must be a fraction, from 0 to 1"),
        (("metrics", "test/accuracy"), None, "metrics.test/accuracy=null: must be a number"),
        (("status",), "done", "status='done': choose from completed, diverged"),
        (("choices", "norm"), "\x1b[2J", "has a character that no line can show"),
        (("config", "lr"), float("inf"), "config.lr=inf: must be finite"),
    ],
)
def test_refusal_names_key_value_and_what_it_should_be(study, path, value, said):
    file = next(study.rglob("summary.json"))
    file.write_text(edited(json.loads(file.read_text()), path, value))
    with pytest.raises(ValueError, match=r"damaged \(.*\); remove the folder") as caught:
        load_summaries(study)
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
