"""Replicas that train in groups of other sizes, as after a kill between two of their checkpoints, end alike.

Sums over a group round differently in float32. A bias before a BatchNorm has no gradient but rounding errors, and Adam
takes full steps by their signs. So there the results agree only where `eps` is above the errors, or in float64.
"""

import pytest
from test_replicas import rows, train

BATCHNORM = ["norm=batchnorm", "max_epochs=3"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        (["optimizer=adamw", "lr=0.01", "trainer=float64"], 1e-9),
        (["optimizer=sgd", "lr=0.05", "trainer=cpu"], 1e-5),
        (["optimizer=adamw", "lr=0.01", "optimizer.eps=1e-4", "trainer=cpu"], 1e-4),
        (["optimizer=adamw", "lr=0.01", "norm=layernorm", "trainer=cpu"], 1e-5),
        (["optimizer=adamw", "lr=0.01", "trainer=cpu"], 0.02),
    ],
    ids=["float64", "sgd", "larger eps", "layernorm", "as documented"],
)
def test_groups_of_other_sizes_end_alike(options, tolerance, tmp_path):
    four = train(tmp_path / "four", *BATCHNORM, *options, "replicas=4")
    two = train(tmp_path / "two", *BATCHNORM, *options, "replicas=2")
    for run, (_, folder) in two.items():
        found, expected = rows(folder), rows(four[run][1])
        losses = {key for key in expected if key[1] in ("train/loss", "val/loss")}
        assert {key: found[key] for key in losses} == pytest.approx(
            {key: expected[key] for key in losses}, rel=tolerance
        )
