"""A stranger's yaml: aliases of aliases, numbers that are read as others, marks that turn a line around."""

import time

import pytest
import yaml
from refusals import refused

from normexp.config import folder
from normexp.config.folder import parse_yaml, use_folder
from normexp.format import printable, require_plain

LAUGHS = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)


def test_aliases_of_aliases_end_in_a_line_at_once(tmp_path, monkeypatch):
    path = tmp_path / "norm" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(LAUGHS)
    monkeypatch.setenv(folder.VARIABLE, "")
    start = time.process_time()
    for read in (lambda: parse_yaml(LAUGHS, path), lambda: use_folder(tmp_path)):
        with refused(r"^\S*mine.yaml: has more than 100,000 values once its aliases"):
            read()
    with refused("has more than"):
        parse_yaml("a: &a [*a]", path)
    assert time.process_time() - start < 2
    assert parse_yaml("a: &a {b: 1}\nc: {<<: *a, d: 2}", path) == {"a": {"b": 1}, "c": {"b": 1, "d": 2}}


@pytest.mark.parametrize("text", ["010", "-017", "1:30", "0", "10", "1_000", "08", "1.5", "0x10", "'010'"])
def test_a_number_is_what_it_looks_like_or_is_refused(text, tmp_path):
    value = yaml.safe_load(text)
    looks = text.strip("'").replace("_", "")
    if (
        isinstance(value, str)
        or looks.startswith("0x")
        or float(looks if ":" not in looks else "nan") == value
    ):
        assert parse_yaml(f"seeds: {text}", tmp_path) == {"seeds": value}
    else:
        with refused(rf"line 1: {text} is read as {value}; write {value}, or"):
            parse_yaml(f"seeds: {text}", tmp_path)


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u061c", "\u202a", "\u2069"])
def test_marks_that_turn_a_line_around_are_written_out(mark):
    assert printable(f"a{mark}b") == f"a\\u{ord(mark):04x}b"
    with refused("no line can show"):
        require_plain("sentence", f"a{mark}b")
