"""`normexp compare`: what it asks, how a look is judged, and one whole comparison of a network of somebody else."""

import dataclasses
import html
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from normexp.cli.compare import compare
from normexp.cli.main import run as command
from normexp.cli.words import call
from normexp.compare.answer import Answer
from normexp.compare.judged import BETTER, EQUAL, METRICS, OPEN, WORSE, Design, look, planned_looks
from normexp.compare.page import differences, methods
from normexp.compare.sentences import failed_runs, finding
from normexp.compare.training import check_overrides

NETWORK = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, num_classes=10):
        super().__init__(nn.Flatten(), nn.Linear(64, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, num_classes))
"""


DESIGN = Design(
    name="mine",
    norms=("none", "batchnorm"),
    rates=(0.1,),
    margin=0.01,
    metric=METRICS["test/error"],
    looks=planned_looks(20),
    budget=60.0,
    words=("recipe=mlp", "model=mlp", "data=digits"),
)


def design(**options):
    return dataclasses.replace(DESIGN, **options)


def results(differences, seeds=10, failed=()):
    """A baseline of 10% and arms that differ by these points, with a little noise."""
    noise = np.random.default_rng(0).normal(size=(len(differences) + 1, seeds))
    values = {"none": 0.1 + 0.01 * noise[0]}
    for place, (norm, points) in enumerate(differences.items(), 1):
        values[norm] = values["none"] + points / 100 + 0.002 * noise[place]
    rows = [
        {"arm": norm, "level": "", "seed": seed, "value": value, "failed": norm != "none" and seed in failed}
        for norm, own in values.items()
        for seed, value in enumerate(own)
    ]
    return pd.DataFrame(rows)


def values_of(found, name):
    return found[found["arm"] == name]["value"].to_numpy()


@pytest.mark.parametrize(("most", "looks"), [(5, (5,)), (16, (5, 10, 16)), (20, (5, 10, 20))])
def test_looks_double_their_seeds(most, looks):
    assert planned_looks(most) == looks


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["norms=none"], "norms=none: name two or more"),
        (["norms=none,none"], "norms=none,none"),
        (["seeds=4"], "seeds=4: must be >= 5"),
        (["margin=-1"], "margin=-1: must be >= 0"),
        (["model=mlp", "margin=1"], "margin=1: is a share of wrong answers, below 1"),
        (["name=../x"], "name=../x: is a folder of out="),
        (["batch_sizes=2,x"], "batch_sizes=2,x: must be a whole number"),
        (["metric=val/loss"], "margin: practice knows none for val/loss"),
        (["metric=val/score", "margin=1"], "metric=val/score: which way is better"),
        (
            ["metric=val/los", "better=lower", "margin=1"],
            "metric=val/los: no run will have it; did you mean val/loss?",
        ),
        (["budget=nan"], "budget=nan"),
        (["model=mlp", "seed=3"], "seed=3: is a column of results"),
        (["model=mlp", "arm=norm"], "arm=norm: is a column of results"),
        (["model=mlp", "version=2"], "version=2: is of a function of yours"),
        (["model=mlp", "looks=2"], "looks: is for results that exist"),
        (["model=mlp", "paired=false"], "paired: is for results that exist"),
        (["78", "79", "value=AP", "margin=1", "rates=0.1"], "rates: is for a training; leave it out"),
        (["78", "79", "value=AP", "margin=1", "version=2"], "version: is for a training; leave it out"),
        (["arms=a,b", "norms=none,batchnorm"], "norms=none,batchnorm: is another word for arms"),
        (["arms=none,none"], "arms=none,none: name two or more"),
        (["78", "78.2", "margin=1"], "value: which way are these numbers better"),
        (["78", "value=AP", "margin=1"], "A: name two arms or more, each once, as A:1,2 other"),
        (["a:1", "b:1", "a:2", "value=AP", "margin=1"], "a b a: name two arms or more, each once, as a:1,2"),
        (["78", "abc"], "abc: neither an option nor numbers beside 78"),
        (
            ["78", "78.2", "marginn=1"],
            "marginn=1: neither an option nor numbers beside 78; did you mean margin?",
        ),
        (["a=78,79", "b=78,80"], "a=78,79: a key has one value; .* numbers in hand are a:78,79 b:79,80"),
        (["78", "7-8"], "7-8: neither an option nor numbers"),
        (["ours:abc"], "ours:abc: no file or folder of results, no numbers such as ours:78.2"),
        (["nowhere"], "nowhere: no file or folder"),
        (["model=mlp", "nowhere"], "nowhere: no file or folder"),
        (["own.py"], "own.py: no file or folder of results, .* such as my.py:train"),
        (["./:train"], "./:train: no file or folder"),
        (["r.csv", "valeu=x"], "valeu=x: is no option for results, as r.csv has them; did you mean value?"),
        (["data.path=r.csv", "nowhere"], "nowhere: no file or folder"),
    ],
)
def test_mistakes_are_one_line(words, said):
    with pytest.raises(ValueError, match=said) as error:
        call("compare", compare, words)
    assert "\n" not in str(error.value)


def test_what_the_comparison_chooses_is_refused():
    for word in ("lr=1", "optimizer.lr=1", "++seed=3", "+lr=0.1", "~seed"):
        with pytest.raises(ValueError, match=f"^{re.escape(word)}: is chosen by the comparison"):
            check_overrides([word])


def test_a_look_equals_a_paired_t_test_at_its_share_of_the_error_rate():
    found = design(norms=("none", "batchnorm", "layernorm"), looks=planned_looks(40))
    one = results({"batchnorm": -3, "layernorm": 0.1})
    result = look(one, found, 0.9)
    assert result.alpha == 0.05 / 4
    for own, name in zip(result.differences, ("batchnorm", "layernorm"), strict=True):
        difference = values_of(one, name) - values_of(one, "none")
        twin = stats.ttest_1samp(difference, 0).confidence_interval(1 - 0.05 / 4)
        assert own.interval == pytest.approx((twin.low, twin.high))
        assert own.effect == pytest.approx(difference.mean())
    assert [own.word for own in result.differences] == [BETTER, EQUAL]
    assert not result.open
    p = [2 * stats.t.sf((0.01 - abs(result.differences[1].effect)) / sem(one, "layernorm"), 9)]
    p += [2 * stats.t.sf((abs(result.differences[0].effect) - 0.01) / sem(one, "batchnorm"), 9)]
    assert result.differences[1].p == pytest.approx(max(p[0], 2 * min(p)) if p[0] > p[1] else 2 * p[0])


def sem(one, name):
    difference = values_of(one, name) - values_of(one, "none")
    return difference.std(ddof=1) / np.sqrt(len(difference))


def test_near_the_margin_nothing_is_decided_and_failures_count_as_guesses():
    found = design(looks=(5,))
    near = look(results({"batchnorm": -1}), found, 0.9)
    assert near.differences[0].word == OPEN
    assert near.open
    assert "the interval crosses the margin of ±1.00; if" in finding(near)[0]
    bad = look(results({"batchnorm": -3}, failed=range(10)), found, 0.9)
    (difference,) = bad.differences
    assert difference.word == WORSE
    assert {arm.norm: arm.failed for arm in bad.arms}["batchnorm"] == 10
    assert difference.effect == pytest.approx(0.8, abs=0.01)
    assert (
        failed_runs(bad) == "failed runs: 0 of 10 with none, 10 of 10 with batchnorm (each counts as a guess)"
    )


def test_equal_arms_are_called_different_at_most_as_often_as_promised():
    """Under no difference at all and a tiny margin, in whichever look one stops."""
    found, wrong = design(margin=1e-9), 0
    random = np.random.default_rng(1)
    for _ in range(150):
        values = random.normal(size=(2, 20))
        for seeds in found.looks:
            rows = pd.DataFrame(
                {"arm": norm, "level": "", "seed": range(seeds), "value": own[:seeds], "failed": False}
                for norm, own in zip(("none", "batchnorm"), values, strict=True)
            ).explode(["seed", "value"])
            if not look(rows.astype({"value": float}), found).open:
                wrong += 1
                break
    assert stats.binomtest(wrong, 150, 0.05, "greater").pvalue > 0.001


def test_finding_says_the_numbers_and_the_paragraph_what_looks_are():
    found = design(looks=(5,))
    (text,) = finding(look(results({"batchnorm": -3}), found, 0.9))
    assert text.startswith("batchnorm is better than none: test error −3.")
    assert " points (−3." in text
    assert text.endswith("10 pairs.")
    assert "looked at" not in methods(look(results({"batchnorm": -3}), found, 0.9))
    told = methods(look(results({"batchnorm": -3}), DESIGN, 0.9))
    assert (
        "looked at after 5, 10, 20 seeds, until all was decided, and each look may err in 1.67% only" in told
    )


def test_the_page_shows_the_differences_what_failed_and_the_words_for_a_paper(tmp_path):
    found, one = design(looks=(5,)), results({"batchnorm": -3}, failed=[4])
    judged = look(one, found, 0.9)
    tables = {"runs": one, "chosen": one}
    place = Answer(judged, one, ["diverged runs: 7"], tables=tables).page(tmp_path, "normexp compare")
    text = html.unescape(place.read_text())
    (difference,) = judged.differences
    for words in (
        "<th>minus none</th>",
        f"<td>{found.metric.show(judged.arms[0].mean)}</td>",
        "<figure>",
        f"<td>{found.metric.show(difference.effect, sign=True)}</td>",
        "<p>Diverged runs: 7.</p>",
        "Failed runs: 0 of 10 with none, 1 of 10 with batchnorm",
        "We compared none, batchnorm by test error",
    ):
        assert words in text, words
    (axes,) = differences(judged).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["batchnorm: not decided"]
    assert [list(line.get_xdata()) for line in axes.lines[1:]] == [
        [100 * end for end in difference.interval],
        [100 * difference.effect],
    ]
    table = pd.read_csv(tmp_path / "tables" / "comparison.csv")
    assert list(table["arm"]) == ["none", "batchnorm"]
    tex = (tmp_path / "tables" / "comparison.tex").read_text()
    assert tex.count("\\\\") == 3
    (row,) = re.findall(r"batchnorm & .* \{\[\}.*\] & .* \{\[\}.*, .*\] & (.*) \\\\", tex)
    assert row == "not decided"
    assert "\\bottomrule" in tex
    assert not set("−±∞") & set(tex)


@pytest.mark.slow
def test_a_network_of_somebody_else_is_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "their_net.py").write_text(NETWORK)
    words = [
        "model=module",
        "model.path=their_net.Net",
        "allow_targets=their_net",
        "data=digits",
        "norms=none,batchnorm",
        "rates=0.003,0.01",
        "max_steps=6",
        "seeds=5",
    ]
    assert command("compare", [*words, "--plan"]) == 0
    planned = r"looks at 5 seeds, until all is decided: at most 20 runs, about .* of one core, and more where"
    assert re.search(planned, capsys.readouterr().out)
    assert not (tmp_path / "outputs").exists()
    assert command("compare", [*words, "--workers", "0"]) == 0
    assert "for every arm, so 20 runs become" in capsys.readouterr().out
    out = tmp_path / "outputs" / "compare" / "module-digits"
    assert "5 pairs" in (out / "index.html").read_text()
    assert (out / "figures" / "differences.pdf").stat().st_size > 2000
    assert (out / "tables" / "chosen.csv").read_text().count("\n") == 11
    assert command("compare", [*words, "metric=val/loss", "margin=0.1", "--workers", "0"]) == 0
    assert (out.with_name("module-digits-2") / "index.html").is_file()
    before = (out / "index.html").read_bytes()
    assert command("compare", [*words, "--workers", "0"]) == 0
    assert (out / "index.html").read_bytes() == before
