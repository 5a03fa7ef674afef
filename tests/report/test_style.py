"""Colors of arms: each its own, and no two that look alike."""

import itertools
import math

import pytest
from matplotlib.colors import to_rgb

from normexp.report.style import OWN, Style


@pytest.mark.parametrize("norm", ["batchnorm", "groupnorm", "none"])
def test_a_norm_without_a_color_of_its_own_looks_like_none_beside_it(norm):
    color = Style([norm, "mine", "other"]).color
    assert color[norm] == OWN[norm]
    for first, second in itertools.combinations(color.values(), 2):
        assert math.dist(to_rgb(first), to_rgb(second)) > 1 / 3
