"""The benchmark of norms compares like with like."""

import pytest
import torch
from benchmarks import Options
from benchmarks.norms import native, norms, ours
from benchmarks.table import SHAPES

SMALL = {"dense": (6, 8), "image": (4, 8, 3, 5), "tokens": (4, 6, 8)}
OTHERS = ("unbiased", "outside", "annotated")  # torch has no such layer


@pytest.mark.parametrize(("name", "shape"), [case for case in SHAPES if not case[0].endswith(OTHERS)])
def test_the_reference_computes_what_ours_does(name, shape):
    x = torch.randn(SMALL[shape], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    own, reference = ours(name, x.shape).double()(x), native(name, x.shape).double()(x)
    torch.testing.assert_close(reference, own)


def test_pairs_are_times_of_both():
    threads = torch.get_num_threads()
    pairs, _ = norms("layernorm", "dense", Options(0, quick=True))
    torch.set_num_threads(threads)
    assert len(pairs) == 3
    assert all(own > 0 and reference > 0 for own, reference in pairs)
