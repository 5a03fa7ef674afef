"""Small runs of every family compute the bits that `normexp.NUMERICS` stands for."""

import json
import warnings

import pytest
from numerics import RECORD, RUNS, compute, kind

import normexp

REMEDY = "raise NUMERICS and run `python scripts/numerics.py`"


def test_the_record_is_of_these_numerics():
    record = json.loads(RECORD.read_text())
    assert record["numerics"] == normexp.NUMERICS, (
        "tests/numerics.json is old: run `python scripts/numerics.py`"
    )
    assert record["loss"].keys() == set(RUNS)


def test_bits_moved_only_if_numerics_did():
    record = json.loads(RECORD.read_text())
    bits = record["bits"].get(kind())
    found = {run: compute(run) for run in RUNS}
    if bits is None:
        warnings.warn(f"no record for {kind()}: cannot compare bits; losses agree to 1%", stacklevel=1)
        for run, one in found.items():
            assert one["loss"] == pytest.approx(record["loss"][run], rel=1e-2), run
        return
    moved = [run for run, one in found.items() if one["bits"] != bits[run]]
    assert not moved, f"bits moved: {REMEDY} ({len(moved)} of {len(RUNS)}: {', '.join(moved)})"
