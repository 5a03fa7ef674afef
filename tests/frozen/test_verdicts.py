"""All kept verdicts, judged again from the evidence, are those that were frozen before it became one table."""

import json

import pytest

from tests.frozen.verdicts import FILE, all_frozen


@pytest.mark.integration
def test_every_kept_verdict_comes_out_as_it_was():
    expected, now = json.loads(FILE.read_text()), all_frozen()

    assert now.keys() == expected.keys()
    other = {name: verdict for name, verdict in now.items() if verdict != expected[name]}
    assert not other, {
        name: {
            key: (expected[name].get(key), value)
            for key, value in verdict.items()
            if value != expected[name].get(key)
        }
        for name, verdict in other.items()
    }
