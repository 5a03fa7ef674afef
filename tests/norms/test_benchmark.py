"""The benchmark compares like with like, and its table holds what it measured."""

import pytest
import torch
from benchmarks import norms as benchmark
from benchmarks.baselines.norm_baselines import ByHand, native
from benchmarks.baselines.norm_limits import ON_CPU

SMALL = {"dense": (6, 8), "image": (4, 8, 3, 5), "tokens": (4, 6, 8)}
CASES = [(n, s) for n in ON_CPU for s in SMALL if (n, s) != ("instancenorm", "dense")]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_baselines_compute_what_ours_does(name, shape):
    x = torch.randn(SMALL[shape], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = benchmark.ours(name, x.shape).double()(x)
    torch.testing.assert_close(ByHand(name, x.shape).double()(x), ours)
    if not name.endswith(("unbiased", "outside", "annotated")):  # torch has no such layer
        torch.testing.assert_close(native(name, x.shape).double()(x), ours)


def test_rows_hold_ratios_to_the_native_layer(monkeypatch):
    monkeypatch.setattr(benchmark, "SHAPES", SMALL)
    monkeypatch.setattr(benchmark, "SAMPLE_SECONDS", 1e-4)
    threads = torch.get_num_threads()
    options = [
        "--norms",
        "layernorm",
        "instancenorm",
        "--shapes",
        "dense",
        "--rounds",
        "3",
        "--device",
        "cpu",
    ]
    rows = benchmark.main(options)
    torch.set_num_threads(threads)
    assert [row["norm"] for row in rows] == ["layernorm"]  # the other is refused on dense layers
    for mode in ("forward", "both", "step"):
        assert rows[0][mode]["native"]["ratio"] == 1
        assert (
            0
            < rows[0][mode]["ours"]["low"]
            <= rows[0][mode]["ours"]["ratio"]
            <= rows[0][mode]["ours"]["high"]
        )
    assert "hand" in rows[0]["both"]
