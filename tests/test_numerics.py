"""Small runs of every family compute the bits that `normexp.NUMERICS` stands for, and on any machine these losses."""

import json
from typing import Any

import pytest
from numerics import RECORD, RUNS, compute, kind

import normexp

REMEDY = "raise NUMERICS and run `python scripts/numerics.py`"


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return json.loads(RECORD.read_text())


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    return {run: compute(run) for run in RUNS}


def test_the_record_is_of_these_numerics(record):
    assert record["numerics"] == normexp.NUMERICS, "tests/numerics.json is old: run scripts/numerics.py"
    assert record["loss"].keys() == set(RUNS)


def test_losses_agree_on_any_machine(record, found):
    pairs = {run: (one["loss"], record["loss"][run]) for run, one in found.items()}
    other = {run: pair for run, pair in pairs.items() if pair[0] != pytest.approx(pair[1], rel=1e-2)}
    assert not other, f"losses (found, recorded) moved by more than 1%: {other}"


def test_bits_moved_only_if_numerics_did(record, found):
    bits = record["bits"].get(kind())
    if bits is None:
        pytest.skip(f"no bits are recorded for {kind()}, only for {', '.join(record['bits'])}")
    moved = [run for run, one in found.items() if one["bits"] != bits[run]]
    assert not moved, f"bits moved: {REMEDY} ({len(moved)} of {len(RUNS)}: {', '.join(moved)})"
