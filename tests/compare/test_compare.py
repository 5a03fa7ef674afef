"""`normexp compare`: what it asks, how a look is judged, and one whole comparison of a network of somebody else."""

import dataclasses
import html
import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from normexp.claims.judge.outcomes import Outcomes, Setting
from normexp.cli.compare import compare
from normexp.cli.main import run as command
from normexp.cli.words import call
from normexp.compare import page
from normexp.compare.judged import (
    BETTER,
    EQUAL,
    OPEN,
    WORSE,
    Design,
    check_words,
    finding,
    look,
    planned_looks,
    show,
)
from normexp.compare.run import Result

NETWORK = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, num_classes=10):
        super().__init__(nn.Flatten(), nn.Linear(64, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, num_classes))
"""


DESIGN = Design(
    name="mine",
    norms=("none", "batchnorm"),
    levels=("",),
    rates=(),
    margin=0.01,
    measure="error",
    looks=planned_looks(20),
    budget=60.0,
    words=("recipe=mlp", "model=mlp", "data=digits"),
)


def design(**options):
    return dataclasses.replace(DESIGN, **options)


def setting(differences, seeds=10, failed=()):
    """A baseline of 10% and arms that differ by these points, with a little noise."""
    noise = np.random.default_rng(0).normal(size=(len(differences) + 1, seeds))
    values = {("none", ""): 0.1 + 0.01 * noise[0]}
    for place, (norm, points) in enumerate(differences.items(), 1):
        values[norm, ""] = values["none", ""] + points / 100 + 0.002 * noise[place]
    bad = {norm: np.isin(np.arange(seeds), failed) for norm in differences}
    return Setting(
        "here",
        {
            key: Outcomes(np.arange(seeds), own, bad.get(key[0], np.zeros(seeds, bool)))
            for key, own in values.items()
        },
        measure="error",
        guess=0.9,
        answer=1 / 360,
    )


def test_each_norm_is_compared_with_the_first_at_each_batch_size():
    found = design(levels=(2, 8)).comparisons
    assert [(c.arm, c.baseline, c.at, c.margin) for c in found] == [
        ("batchnorm", "none", 2, 0.01),
        ("batchnorm", "none", 8, 0.01),
    ]


@pytest.mark.parametrize(("most", "looks"), [(5, (5,)), (16, (5, 10, 16)), (20, (5, 10, 20))])
def test_looks_double_their_seeds(most, looks):
    assert planned_looks(most) == looks


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"norms": "none"}, "norms=none: name two or more"),
        ({"norms": "none,none"}, "norms=none,none"),
        ({"seeds": "4"}, "seeds=4: must be >= 5"),
        ({"margin": "-1"}, "margin=-1: must be a number above 0"),
        ({"margin": "2"}, "margin=2: is a share of wrong answers, below 1"),
        ({"name": "../x"}, "name=../x: is a folder of out="),
        ({"batch_sizes": "2,x"}, "batch_sizes=2,x: must be a whole number"),
        ({"metric": "val/loss"}, "metric=val/loss: choose from"),
        ({"budget": "nan"}, "budget=nan"),
    ],
)
def test_mistakes_are_one_line(options, words):
    with pytest.raises(ValueError, match=words) as error:
        call("compare", compare, [f"{key}={value}" for key, value in options.items()])
    assert "\n" not in str(error.value)


def test_what_the_comparison_chooses_is_refused():
    for word in ("lr=1", "optimizer.lr=1", "++seed=3", "+lr=0.1", "~seed"):
        with pytest.raises(ValueError, match=f"^{re.escape(word)}: is chosen by the comparison"):
            check_words([word])


def test_a_look_equals_a_paired_t_test_at_its_share_of_the_error_rate():
    found = design(norms=("none", "batchnorm", "layernorm"), looks=planned_looks(40))
    one = setting({"batchnorm": -3, "layernorm": 0.1})
    result = look(one, found)
    assert result.alpha == 0.05 / 4
    for own, name in zip(result.differences, ("batchnorm", "layernorm"), strict=True):
        difference = one.outcomes[name, ""].values - one.outcomes["none", ""].values
        twin = stats.ttest_1samp(difference, 0).confidence_interval(1 - 0.05 / 4)
        assert own.interval == pytest.approx((twin.low, twin.high))
        assert own.effect == pytest.approx(difference.mean())
    assert [own.word for own in result.differences] == [BETTER, EQUAL]
    assert not result.open
    p = [2 * stats.t.sf((0.01 - abs(result.differences[1].effect)) / sem(one, "layernorm"), 9)]
    p += [2 * stats.t.sf((abs(result.differences[0].effect) - 0.01) / sem(one, "batchnorm"), 9)]
    assert result.differences[1].p == pytest.approx(max(p[0], 2 * min(p)) if p[0] > p[1] else 2 * p[0])


def sem(one, name):
    difference = one.outcomes[name, ""].values - one.outcomes["none", ""].values
    return difference.std(ddof=1) / np.sqrt(len(difference))


def test_near_the_margin_nothing_is_decided_and_failures_count_as_guesses():
    found = design(looks=(5,))
    near = look(setting({"batchnorm": -1}), found)
    assert near.differences[0].word == OPEN
    assert near.open
    assert "lies partly within the margin of ±1.00 and partly beyond it" in finding(near, "none", "error")
    bad = look(setting({"batchnorm": -3}, failed=range(10)), found)
    (difference,) = bad.differences
    assert difference.word == WORSE
    assert {arm.norm: arm.failed for arm in bad.arms}["batchnorm"] == 10
    assert difference.effect == pytest.approx(0.8, abs=0.01)


def test_equal_arms_are_called_different_at_most_as_often_as_promised():
    """Under no difference at all and a tiny margin, in whichever look one stops."""
    found, wrong = design(margin=1e-9), 0
    random = np.random.default_rng(1)
    for _ in range(300):
        values = random.normal(size=(2, 20))
        for seeds in found.looks:
            outcomes = {
                (norm, ""): Outcomes(np.arange(seeds), own[:seeds], np.zeros(seeds, bool))
                for norm, own in zip(("none", "batchnorm"), values, strict=True)
            }
            if not look(Setting("here", outcomes), found).open:
                wrong += 1
                break
    assert stats.binomtest(wrong, 300, 0.05, "greater").pvalue > 0.001


def test_finding_says_the_numbers():
    result = look(setting({"batchnorm": -3}), design(looks=(5,)))
    text = finding(result, "none", "error")
    assert text.startswith("The error of batchnorm is smaller than that of none: −3.")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["max_steps=20", "rates=1e9"], "rates=1e+09: every run of none and batchnorm diverged; write lower"),
        (
            ["max_steps=1", "rates=1e-12"],
            "rates=1e-12: every run of none and batchnorm failed to learn; train",
        ),
    ],
)
def test_where_every_run_fails_one_line_says_so(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    given = ["model=mlp", "data=digits", "norms=none,batchnorm", "seeds=5", "--workers", "0"]
    assert command("compare", [*given, *words]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_the_page_shows_the_differences_what_failed_and_the_words_for_a_paper(tmp_path):
    found = design(looks=(5,))
    judged = look(setting({"batchnorm": -3}, failed=[4]), found)
    runs = pd.DataFrame(
        {"arm": norm, "lr": 0.1, "status": status, "seconds": 30.0}
        for norm in found.norms
        for status in ("completed", "diverged")
    )
    result = Result(found, [judged], runs, runs, "every difference is decided")
    text = html.unescape(page.write(result, tmp_path, "normexp compare").read_text())
    (difference,) = judged.differences
    for words in (
        "<th>minus none</th>",
        f"<td>{show(judged.arms[0].mean, 'error')}</td>",
        "<figure>",
        f"<td>{show(difference.effect, 'error', sign=True)}</td>",
        "Diverged runs: batchnorm at rate 0.1: 1; none at rate 0.1: 1.",
        f"Differences to none are means over {judged.seeds} paired seeds",
    ):
        assert words in text, words


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
    assert "looks at 5 seeds, until all is decided: at most 20 runs" in capsys.readouterr().out
    assert not (tmp_path / "outputs").exists()
    assert command("compare", [*words, "--workers", "0"]) == 0
    out = tmp_path / "outputs" / "compare" / "module-digits"
    shown = (out / "index.html").read_text()
    assert "In this setting: " in shown
    assert "5 paired seeds" in shown
    assert (out / "figures" / "differences.pdf").stat().st_size > 2000
    assert (out / "tables" / "chosen.csv").read_text().count("\n") == 11
