"""The invariances of each norm: the table of Ba et al. 2016 for norm(W x), extended to the whole family.

Columns: all of W scaled, W + 1 g^T (one vector added to every row), one row of W scaled, the data set scaled, a
constant added to the data set, one sample scaled.
"""

import copy

import documentation
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from norms.layers import NAMES, REFUSED, norm_factory, values

BATCH, LAYER, RMS, NOTHING = "y n y y y n", "y y n y n y", "y n n y n y", "n n n n n n"
TABLE = {
    **{name: BATCH for name in NAMES if name.startswith("batchnorm")},
    **{name: LAYER for name in NAMES if name.startswith("layernorm")},
    **{name: RMS for name in ("rmsnorm", "rmsnorm_gain_free", "rmsnorm_partial", "scalenorm")},
    **{name: NOTHING for name in ("none", "affine", "dyt", "derf", "hardtanh")},
    "adanorm": LAYER,
    "groupnorm": LAYER,
    "batchrenorm": BATCH,  # during its warm-up
    "powernorm": RMS,  # divides every sample by its root mean square first
    "powernorm_unscaled": "y n y y n n",  # RMSNorm of a channel over the batch
    "switchablenorm_layer_batch": "y n n y n n",
    "instancenorm": "y n y y y y",
    "switchablenorm": "y n n y n n",  # of its three statistics each row fails one
}
ON_IMAGES = {name for name, layout in REFUSED if layout == "dense"}  # W is a 1 x 1 convolution there
# A group of two values always gives +-1.
GROUPS_OF_MORE_THAN_TWO = {"batchnorm_ghost": ["virtual_batch_size=3"], "groupnorm": ["num_groups=2"]}
COLUMNS = ("all of W scaled", "W + 1 g^T", "one row of W scaled")
COLUMNS += ("data scaled", "data + constant", "one sample scaled")


def changed(column, w, x, factor, vector):
    """W (8, 5) and x (6, 5) or (6, 5, H, W), changed in one of the ways of the table."""
    w, x = w.clone(), x.clone()
    if column == 0:
        w *= factor
    elif column == 1:
        w += vector  # to every row
    elif column == 2:
        w[3] *= factor
    elif column == 3:
        x *= factor
    elif column == 4:
        x += vector.view(-1, *[1] * (x.dim() - 2))
    else:
        x[2] *= factor
    return w, x


def difference(name, column, seed, factor):
    layer = norm_factory(name, *GROUPS_OF_MORE_THAN_TWO.get(name, []))(8).double()
    layer.eps = 0.0  # an eps breaks scale invariance a little
    shape = (6, 5, 2, 3) if name in ON_IMAGES else (6, 5)
    w, x, vector = values((8, 5), seed), values(shape, seed + 1), values((5,), seed + 2)
    before = copy.deepcopy(layer)(torch.einsum("oc,nc...->no...", w, x))
    w, x = changed(column, w, x, factor, vector)
    after = copy.deepcopy(layer)(torch.einsum("oc,nc...->no...", w, x))
    return (after - before).abs().max().item()


def measured(name):
    """A row, from three draws of each column."""
    largest = [max(difference(name, column, seed, factor=3.0) for seed in range(3)) for column in range(6)]
    return " ".join("y" if value < 1e-7 else "n" for value in largest)


@pytest.mark.parametrize("column", range(6), ids=COLUMNS)
@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row != NOTHING])
@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), factor=st.floats(0.1, 0.5) | st.floats(2, 10))
def test_invariances_hold_and_fail_as_the_table_says(name, column, seed, factor):
    if TABLE[name].split()[column] == "y":
        assert difference(name, column, seed, factor) < 1e-7
    else:
        assert difference(name, column, seed, factor) > 1e-3


@pytest.mark.integration
def test_the_page_shows_every_norm_and_what_is_measured():
    page = (documentation.DOCS / "norms.md").read_text()
    assert documentation.filled(page, documentation.norms()) == page, "run scripts/documentation.py norms"
