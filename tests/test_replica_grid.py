"""Which runs `replicas=...` stands for, and what it refuses."""

import re

import pytest

from normexp.config.run_spec import seeds_and_rates


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (3, [(5, None), (6, None), (7, None)]),
        ({"seeds": 1, "lr": None}, [(5, None)]),
        ({"seeds": [0, 9]}, [(0, None), (9, None)]),
        ({"lr": [0.1, 1]}, [(5, 0.1), (5, 1.0)]),
        ({"seeds": 2, "lr": [0.1, 1]}, [(5, 0.1), (6, 0.1), (5, 1.0), (6, 1.0)]),
    ],
)
def test_seeds_and_rates(asked, expected):
    assert seeds_and_rates({"seed": 5, "replicas": asked}) == expected


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (0, "replicas.seeds=0: must be a number of at least 1"),
        ({"seeds": True}, "replicas.seeds=True"),
        ({"seeds": [1, 1]}, "names one twice"),
        ({"seeds": []}, "replicas.seeds=[]"),
        ({"lr": [0]}, "replicas.lr=[0]: must be a list of positive learning rates"),
        ({"lr": 0.1}, "replicas.lr=0.1"),
        ({"sead": 3}, "replicas.sead: no such key"),
    ],
)
def test_bad_replicas_are_one_line(asked, says):
    with pytest.raises(ValueError, match=re.escape(says)) as error:
        seeds_and_rates({"seed": 0, "replicas": asked})
    assert "\n" not in str(error.value)
