"""All kept verdicts, judged again from the evidence, are those that were frozen, in every key and in words."""

import pytest

from tests.frozen.verdicts import all_frozen, expected


@pytest.mark.integration
def test_every_kept_verdict_comes_out_as_it_was():
    kept, now = expected(), all_frozen()

    assert now.keys() == kept.keys()
    other = {name: verdict for name, verdict in now.items() if verdict != kept[name]}
    assert not other, {
        name: {
            key: (kept[name].get(key), verdict.get(key))
            for key in verdict.keys() | kept[name].keys()
            if verdict.get(key) != kept[name].get(key)
        }
        for name, verdict in other.items()
    }
