"""What a claim's figure says: the sentence, the word, the units, every seed."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from committed import CLAIMS, altered, judged
from matplotlib.figure import Figure

from normexp.claims.judge.comparison import Comparison
from normexp.claims.judge.one_setting import judge_values
from normexp.claims.judge.verdict import Word
from normexp.claims.pages.figure import COLORS, KIND_OF, aside, draw

COMPARISON = Comparison(kind="smaller", arm="batchnorm", baseline="none", margin=2.0)
CLAIM = altered(
    CLAIMS["P14"], id="mine", sentence="BatchNorm learns sooner.", measure="optimizer steps until 90%",
    comparisons=[COMPARISON], cells={},
)  # fmt: skip


@pytest.fixture
def figures(monkeypatch):
    """Those that are saved."""
    kept = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *args, **options: kept.append(self))
    return kept


def test_figure_has_sentence_word_and_units(tmp_path, figures):
    rows = [("batchnorm", seed, 12.0) for seed in range(5)] + [("none", seed, 20.0) for seed in range(5)]
    table = pd.DataFrame(rows, columns=["arm", "seed", "value"]).assign(factor="")
    draw(table, replace(judge_values(CLAIM, table), word="supported"), tmp_path / "figure.png")
    (figure,) = figures
    values, effects = figure.axes
    heading = figure.get_suptitle()
    assert "BatchNorm learns sooner." in heading
    assert "supported" in heading
    assert values.get_ylabel().replace("\n", " ") == "optimizer steps until 90%"
    assert effects.get_xlabel().replace("\n", " ") == "difference in optimizer steps until 90%"
    assert [tick.get_text() for tick in effects.get_yticklabels()] == ["batchnorm against none"]
    points = values.lines[0]
    assert len(set(points.get_xdata())) == 5  # equal values do not hide one another


def test_every_word_in_favor_has_its_color_and_only_equal_points_are_moved_apart():
    in_favor = {Word.SUPPORTED, Word.NO_COUNTEREXAMPLE, Word.HOLDS_HERE}
    assert {*KIND_OF} == in_favor | {Word.REFUTED}
    assert {word for word in Word if KIND_OF.get(word) == "for"} == in_favor
    assert {*KIND_OF.values()} | {"open"} == {*COLORS}
    assert list(aside(pd.Series([1.0, 2.0, 1.0, 1.0]))) == [-0.05, 0.0, 0.0, 0.05]


def test_an_infinite_value_stands_at_its_level_above_the_axis(tmp_path, figures):
    rows = [
        ("batchnorm", level, seed, math.inf if level == 1 else 2.0) for level in (1, 2) for seed in range(5)
    ]
    table = pd.DataFrame(rows, columns=["arm", "factor", "seed", "value"])
    bound = Comparison(kind="every", at_least=1)
    claim = altered(CLAIM, evidence="law", factor={"samples": [1, 2]}, comparisons=[bound])
    draw(table, judge_values(claim, table), tmp_path / "figure.png")
    (axes,) = figures[0].axes
    crosses = [line for line in axes.lines if line.get_marker() == "x"]
    assert [(line.get_xdata()[0], line.get_ydata()[0] > 1) for line in crosses] == [(1, True)]
    assert [text.get_text() for text in axes.texts] == ["inf"]


def test_hand_picked_settings_have_a_row_for_each_comparison(tmp_path, figures):
    drawn = judged("S22")
    first, second = drawn.counts
    counts = tuple(replace(count, settings=count.settings[:1]) for count in (first, second))
    draw(
        pd.DataFrame(),
        replace(drawn, claim=altered(drawn.claim, first=0), counts=counts),
        tmp_path / "figure.png",
    )
    (axes,) = figures[0].axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [
        "fixed against none",
        "trained against fixed",
    ]
    assert axes.lines[2].get_xdata()[0] == pytest.approx(first.settings[0].number)
    assert axes.lines[4].get_xdata()[0] == pytest.approx(second.settings[0].number)
    assert figures[0].get_suptitle().replace("\n", " ") == f"Claim S22: {drawn.claim.sentence}"
    assert figures[0].legends[0].get_title().get_text().startswith("comparisons; ")
    assert "minus" not in axes.get_xlabel()
