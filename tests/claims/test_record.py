"""`verdict.json`: what is written can be read back, and nothing is read from a sentence."""

import dataclasses
import json

import pytest
from committed import judged

from normexp.claims.judge.verdict import Verdict
from normexp.claims.record import from_json, to_json

SENTENCES = ("scope", "note", "does_not_show", "method")
# Over drawn settings, over hand-picked ones, of two comparisons, with a manipulation check; a law, a search.
NAMES = ("P06a", "P10a", "S91", "P08", "S05", "P17b", "S38")


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_a_verdict_comes_back_from_its_file(name):
    verdict = judged(name)
    assert verdict is not None
    written = json.loads(json.dumps(to_json(verdict), allow_nan=False))
    assert to_json(from_json(written)) == written
    silent = {key: "" if key in SENTENCES else value for key, value in written.items()}
    assert to_json(from_json(silent)) == written


def test_every_field_of_a_verdict_is_told_what_it_is_of_a_type():
    untyped = [field.name for field in dataclasses.fields(Verdict) if field.type in ("Any", dict)]
    assert untyped == []
