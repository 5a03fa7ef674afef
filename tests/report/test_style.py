"""Colors of arms: each its own, and no two that look alike."""

import itertools
import math

import pytest
from matplotlib.colors import to_rgb

from normexp.report.drawing import DARK, dark_colors
from normexp.report.style import OWN, Style


@pytest.mark.parametrize("norm", ["batchnorm", "groupnorm", "none"])
def test_a_norm_without_a_color_of_its_own_looks_like_none_beside_it(norm):
    colour = Style([norm, "mine", "other"]).colour
    assert colour[norm] == OWN[norm]
    for first, second in itertools.combinations(colour.values(), 2):
        assert math.dist(to_rgb(first), to_rgb(second)) > 1 / 3


def test_the_colors_of_a_page_have_one_order():
    colors = ["#ff8800", "#0088FF", "#222222", "#00ff88"]
    expected = [*(f"--c-{name}" for name in DARK), "--c-0088ff", "--c-00ff88", "--c-ff8800"]
    assert list(dark_colors(colors)) == list(dark_colors(colors[::-1])) == expected
