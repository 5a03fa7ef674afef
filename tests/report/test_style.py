"""Colors of arms: each its own, and no two that look alike."""

import io
import itertools
import math
import re

import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import to_rgb

from normexp.report.drawing import DARK, Drawing, dark_colors, inline, panels
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


def test_arms_of_one_norm_have_colors_of_their_own():
    style = Style(["layernorm · pre", "layernorm · post", "batchnorm · pre", "batchnorm · post"])
    assert style.colour["layernorm · pre"] == OWN["layernorm"]
    for first, second in itertools.combinations(style.colour.values(), 2):
        assert math.dist(to_rgb(first), to_rgb(second)) > 0.2


@pytest.mark.integration
@pytest.mark.parametrize(("number", "columns"), [(1, 1), (2, 2), (4, 4), (5, 3), (6, 3), (7, 4)])
def test_panels_stand_in_even_rows_of_one_width(number, columns):
    figure, axes = panels(list(range(number)), "x", "y")
    assert max(one.get_subplotspec().colspan.start for one in axes.values()) + 1 == columns
    text = inline(svg_of(figure), Drawing("a", "t", "c", figure))
    share = re.search(r'style="max-width: ([\d.]+)%"', text)[1]
    assert float(share) == (50 if number == 1 else 100)


def svg_of(figure) -> bytes:
    file = io.BytesIO()
    FigureCanvasSVG(figure).print_svg(file)
    return file.getvalue()
