"""All kept verdicts, judged again from the evidence, are those that were frozen, in every key and in words."""

import pytest

from tests.frozen.verdicts import all_frozen, expected


@pytest.mark.integration
def test_every_kept_verdict_comes_out_as_it_was():
    kept, now = expected(), all_frozen()

    assert now.keys() == kept.keys()
    for name, verdict in now.items():
        then = kept[name]
        moved = {key for key in verdict.keys() | then.keys() if verdict.get(key) != then.get(key)}
        assert not moved, (name, {key: (then.get(key), verdict.get(key)) for key in moved})
