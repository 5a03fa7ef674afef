"""Colors of arms: each its own, and no two that look alike."""

import itertools
import math

import pytest
from matplotlib.colors import to_rgb

from normexp.report.drawing import WIDTH, panels
from normexp.report.style import OWN, Style


@pytest.mark.parametrize("norm", ["batchnorm", "groupnorm", "none"])
def test_a_norm_without_a_color_of_its_own_looks_like_none_beside_it(norm):
    color = Style([norm, "mine", "other"]).color
    assert color[norm] == OWN[norm]
    for first, second in itertools.combinations(color.values(), 2):
        assert math.dist(to_rgb(first), to_rgb(second)) > 1 / 3


def test_arms_of_one_norm_have_colors_of_their_own():
    style = Style(["layernorm · pre", "layernorm · post", "batchnorm · pre", "batchnorm · post"])
    assert style.color["layernorm · pre"] == OWN["layernorm"]
    for first, second in itertools.combinations(style.color.values(), 2):
        assert math.dist(to_rgb(first), to_rgb(second)) > 0.2


@pytest.mark.parametrize(("number", "columns"), [(1, 1), (2, 2), (4, 4), (5, 3), (6, 3), (7, 4)])
def test_panels_stand_in_even_rows_of_one_width(number, columns):
    figure, axes = panels(list(range(number)), "x", "y")
    assert max(one.get_subplotspec().colspan.start for one in axes.values()) + 1 == columns
    assert figure.get_figwidth() == pytest.approx(WIDTH / 2 if number == 1 else WIDTH)
