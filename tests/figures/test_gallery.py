"""The gallery: each figure draws its numbers, which equal a twin; the command leaves what it says."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from refusals import refused

from normexp.cli.main import run
from normexp.figures.gallery import Lab, chosen, figures, make, write_page
from normexp.figures.of_training import error
from normexp.figures.of_transformers import best_tanh
from normexp.figures.plot import Plot, draw
from normexp.report.style import drawing_style

TRAINED = {
    "bn_percentiles", "gn_batch_size", "rates", "noisy_batchnorm", "train_eval_precise", "updates_and_saturation",
    "landscape", "dyt_clouds", "massive_activations", "qk_norm_rates", "dead_depth", "gradient_by_layer",
}  # fmt: skip
FAST = {"bn_percentiles", "landscape"}


def drawn(axes) -> list[tuple[np.ndarray, np.ndarray]]:
    return [line.get_data() for line in axes.get_lines()]


def require_that_numbers_are_drawn(plot: Plot) -> None:
    """Every line, band and map of the numbers stands in the axes of its panel, and nothing else."""
    with drawing_style():
        figure = draw(plot)
        figure.draw_without_rendering()
    places = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    assert len(places) == len(plot.panels)
    for panel, axes in zip(plot.panels, places, strict=True):
        assert (axes.get_xlabel(), axes.get_ylabel()) == (panel.xlabel, panel.ylabel)
        assert axes.get_yscale() == ("log" if "y" in panel.log else "linear")
        for line, (x, y) in zip(panel.lines, drawn(axes), strict=True):
            np.testing.assert_array_equal(x, line.x)
            np.testing.assert_array_equal(y, line.y)
        bands = [line for line in panel.lines if line.low is not None]
        for line, band in zip(bands, axes.collections if panel.lines else [], strict=True):
            ends = band.get_datalim(axes.transData)
            assert ends.y0 == pytest.approx(np.nanmin(line.low))
            assert ends.y1 == pytest.approx(np.nanmax(line.high))
        if panel.map:
            np.testing.assert_array_equal(axes.collections[0].get_array(), panel.map.z)


@pytest.mark.integration
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in TRAINED - FAST else []) for name in figures()],
)
def test_a_figure_draws_its_numbers(name, tmp_path):
    one = figures()[name]
    plot = make(one, tmp_path, small=True)
    require_that_numbers_are_drawn(plot)
    saved = json.loads((tmp_path / f"{name}.json").read_text())
    assert saved["panels"] == json.loads(json.dumps(plot.numbers()["panels"]))
    assert saved["seen"] == plot.seen
    values = [y for panel in plot.panels for line in panel.lines for y in line.y]
    values += [z for panel in plot.panels if panel.map for row in panel.map.z for z in row]
    assert values
    assert sum(map(math.isfinite, values)) > 0.8 * len(values)
    assert (tmp_path / f"{name}.png").stat().st_size > 5000


def test_best_tanh_finds_the_curve_that_made_the_points():
    x = torch.linspace(-3, 3, 200).double()
    y = 2 * (0.7 * x).tanh()
    assert float((best_tanh(x, y)(x) - y).abs().max()) < 0.05


def test_error_with_batch_statistics_equals_a_loop_and_keeps_the_network():
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4))
    x, y = torch.randn(22, 3), torch.randint(0, 4, (22,))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    found = error(network, x, y, batch_size=5)
    wrong = 0
    for first in range(0, 20, 5):
        h = network[0](x[first : first + 5])
        z = (h - h.mean(0)) / (h.var(0, correction=0) + 1e-5).sqrt()
        wrong += int((network[2](z).argmax(1) != y[first : first + 5]).sum())
    assert found == pytest.approx(100 * wrong / 20)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_command_makes_files_and_a_page(tmp_path, capsys):
    assert run("figure", ["residual_variance", "--small", "--out", str(tmp_path)]) == 0
    assert "closed form 16" in capsys.readouterr().out
    page = write_page(tmp_path).read_text()
    assert 'src="residual_variance.png"' in page
    assert "tiny sizes" in page
    assert "figure rates" in page


NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
PAGE = Path(__file__).parents[2] / "docs" / "gallery.md"


@pytest.mark.parametrize("name", figures())
def test_the_page_of_the_gallery_says_what_the_figure_says_today(name):
    one, text = figures()[name], PAGE.read_text()
    (part,) = [part for part in text.split("\n## ")[1:] if f"(images/gallery/{name}.png)" in part]
    assert part.startswith(f"{one.title}\n")
    assert f"**There:** {one.paper} *{one.source}.*" in part
    assert f"`normexp figure {name}`" in part
    height, width, _ = imread(PAGE.parent / "images" / "gallery" / f"{name}.png").shape
    assert width > 800
    assert height > 300


@pytest.mark.integration
@pytest.mark.parametrize("name", sorted(set(figures()) - TRAINED))
def test_the_page_of_the_gallery_says_the_numbers_that_are_computed_today(name, tmp_path):
    """The words are equal; the numbers may differ by 1%, since processors round differently over 2000 steps."""
    seen = figures()[name].make(Lab(tmp_path)).seen
    (part,) = [p for p in PAGE.read_text().split("\n## ")[1:] if f"(images/gallery/{name}.png)" in p]
    written = part.split("**Here:** ")[1].split("\n")[0]
    assert re.sub(NUMBER, "#", written) == re.sub(NUMBER, "#", seen)
    numbers = [[float(found) for found in re.findall(NUMBER, text)] for text in (written, seen)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.01)


def test_unknown_name_and_help(capsys, tmp_path):
    with refused(f"^{tmp_path}: is a folder; `normexp report {tmp_path}` draws"):
        chosen([str(tmp_path)])
    with refused("rate: no such figure; did you mean rates"):
        chosen(["rate"])
    with refused(r"^nosuch: no such figure"):
        chosen(["all", "nosuch"])
    with refused(r"^name a figure, or all; choose from: bn_percentiles, "):
        chosen([])
    assert run("figure", ["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in figures())
    assert [one.name for one in chosen(["all"])] == list(figures())
