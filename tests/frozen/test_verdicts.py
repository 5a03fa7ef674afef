"""All kept verdicts, judged again from the evidence, are those that were frozen, in every key and in words."""

import pytest

from tests.frozen.verdicts import all_frozen, expected


def moved(then, now):
    """Key -> both values, where they differ."""
    keys = sorted(then.keys() | now.keys())
    return {key: (then.get(key), now.get(key)) for key in keys if then.get(key) != now.get(key)}


@pytest.mark.integration
def test_every_kept_verdict_comes_out_as_it_was():
    kept, now = expected(), all_frozen()
    assert now.keys() == kept.keys()
    other = {name: found for name in now if (found := moved(kept[name], now[name]))}
    assert not other, other
