"""`normexp compare`: what it asks, how a look is judged, and one whole comparison of a network of somebody else."""

import dataclasses
import html
import re

import numpy as np
import pandas as pd
import pytest
from refusals import refused
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
    name="mine", norms=("none", "batchnorm"), rates=(0.1,), margin=0.01, metric=METRICS["test/error"],
    looks=planned_looks(20), budget=60.0, words=("recipe=mlp", "model=mlp", "data=digits"),
)  # fmt: skip


def design(**options):
    return dataclasses.replace(DESIGN, **options)


def results(differences, seeds=10, failed=()):
    """A baseline of 10% and arms that differ by these points, with a little noise."""
    noise = np.random.default_rng(0).normal(size=(len(differences) + 1, seeds))
    none = 0.1 + 0.01 * noise[0]
    arms = {"none": none}
    arms |= {
        name: none + x / 100 + 0.002 * own
        for (name, x), own in zip(differences.items(), noise[1:], strict=True)
    }
    rows = [
        {"arm": name, "level": "", "seed": seed, "value": value, "failed": name != "none" and seed in failed}
        for name, values in arms.items() for seed, value in enumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def minus_none(one, name):
    """Differences by seed."""
    values = one.pivot(index="seed", columns="arm", values="value")
    return (values[name] - values["none"]).to_numpy()


@pytest.mark.parametrize(("most", "looks"), [(5, (5,)), (16, (5, 10, 16)), (20, (5, 10, 20))])
def test_looks_double_their_seeds(most, looks):
    assert planned_looks(most) == looks


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("norms=none", "norms=none: name two or more"), ("norms=none,none", "norms=none,none"),
        ("arms=none,none", "arms=none,none: name two or more"), ("seeds=4", "seeds=4: must be >= 5"),
        ("margin=-1", "margin=-1: must be >= 0"), ("budget=nan", "budget=nan"),
        ("model=mlp margin=1", "margin=1: is a share of wrong answers, below 1"),
        ("name=../x", "name=../x: is a folder of out="),
        ("batch_sizes=2,x", "batch_sizes=2,x: must be a whole number"),
        ("metric=val/loss", "margin: practice knows none for val/loss"),
        ("metric=val/score margin=1", "metric=val/score: which way is better"),
        ("metric=val/los better=lower margin=1", "metric=val/los: no run will have it; did you mean val/loss?"),
        ("model=mlp seed=3", "seed=3: is a column of results"),
        ("model=mlp arm=norm", "arm=norm: is a column of results"),
        ("model=mlp version=2", "version=2: is of a function of yours"),
        ("model=mlp looks=2", "looks: is for results that exist"),
        ("model=mlp paired=false", "paired: is for results that exist"),
        ("78 79 value=AP margin=1 rates=0.1", "rates: is for a training; leave it out"),
        ("78 79 value=AP margin=1 version=2", "version: is for a training; leave it out"),
        ("arms=a,b norms=none,batchnorm", "norms=none,batchnorm: is another word for arms"),
        ("78 78.2 margin=1", "value: which way are these numbers better"),
        ("78 value=AP margin=1", "A: name two arms or more, each once, as A:1,2 other"),
        ("a:1 b:1 a:2 value=AP margin=1", "a b a: name two arms or more, each once, as a:1,2"),
        ("78 abc", "abc: neither an option nor numbers beside 78"),
        ("78 78.2 marginn=1", "marginn=1: neither an option nor numbers beside 78; did you mean margin?"),
        ("a=78,79 b=78,80", "a=78,79: a key has one value; .* numbers in hand are a:78,79 b:79,80"),
        ("78 7-8", "7-8: neither an option nor numbers"),
        ("ours:abc", "ours:abc: no file or folder of results, no numbers such as ours:78.2"),
        ("nowhere", "nowhere: no file or folder"), ("model=mlp nowhere", "nowhere: no file or folder"),
        ("data.path=r.csv nowhere", "nowhere: no file or folder"), ("./:train", "./:train: no file or folder"),
        ("own.py", "own.py: no file or folder of results, .* such as my.py:train"),
        ("r.csv valeu=x", "valeu=x: is no option for results, as r.csv has them; did you mean value?"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(words, said):
    with refused(said):
        call("compare", compare, words.split())


@pytest.mark.parametrize("word", ["lr=1", "optimizer.lr=1", "++seed=3", "+lr=0.1", "~seed"])
def test_what_the_comparison_chooses_is_refused(word):
    with refused(f"^{re.escape(word)}: is chosen by the comparison"):
        check_overrides([word])


def test_a_look_equals_a_paired_t_test_at_its_share_of_the_error_rate():
    found = design(norms=("none", "batchnorm", "layernorm"), looks=planned_looks(40))
    one = results({"batchnorm": -3, "layernorm": 0.1})
    result = look(one, found, 0.9)
    assert result.alpha == 0.05 / 4
    p = []
    for own in result.differences:
        each = minus_none(one, own.arm.norm)
        twin = stats.ttest_1samp(each, 0).confidence_interval(1 - 0.05 / 4)
        assert own.interval == pytest.approx((twin.low, twin.high))
        assert own.effect == pytest.approx(each.mean())
        p.append(2 * stats.t.sf(abs(abs(own.effect) - 0.01) / stats.sem(each), 9))
    assert [own.word for own in result.differences] == [BETTER, EQUAL]
    assert not result.open
    assert result.differences[1].p == pytest.approx(max(p[1], 2 * min(p)) if p[1] > p[0] else 2 * p[1])


def test_near_the_margin_nothing_is_decided_and_failures_count_as_guesses():
    near = look(results({"batchnorm": -1}), design(looks=(5,)), 0.9)
    assert near.differences[0].word == OPEN
    assert near.open
    assert "the interval crosses the margin of ±1.00; if" in finding(near)[0]
    bad = look(results({"batchnorm": -3}, failed=range(10)), design(looks=(5,)), 0.9)
    (difference,) = bad.differences
    assert difference.word == WORSE
    assert difference.effect == pytest.approx(0.8, abs=0.01)
    said = "failed runs: 0 of 10 with none, 10 of 10 with batchnorm (each counts as a guess)"
    assert failed_runs(bad) == said


def test_equal_arms_are_called_different_at_most_as_often_as_promised():
    """Under no difference at all and a tiny margin, in whichever look one stops."""
    found, wrong = design(margin=1e-9), 0
    random = np.random.default_rng(1)
    for _ in range(150):
        rows = pd.DataFrame({"arm": np.repeat(["none", "batchnorm"], 20), "level": "", "failed": False})
        rows = rows.assign(seed=[*range(20)] * 2, value=random.normal(size=40))
        wrong += any(not look(rows[rows["seed"] < seeds], found).open for seeds in found.looks)
    assert stats.binomtest(wrong, 150, 0.05, "greater").pvalue > 0.001


def test_finding_says_the_numbers_and_the_paragraph_what_looks_are():
    once, planned = (look(results({"batchnorm": -3}), own, 0.9) for own in (design(looks=(5,)), DESIGN))
    (text,) = finding(once)
    assert re.fullmatch(r"batchnorm is better than none: test error −3\.\S+ points \(−3\..*10 pairs\.", text)
    assert "looked at" not in methods(once)
    said = "looked at after 5, 10, 20 seeds, until all was decided, and each look may err in 1.67% only"
    assert said in methods(planned)


def test_the_page_shows_the_differences_what_failed_and_the_words_for_a_paper(tmp_path):
    found, one = design(looks=(5,)), results({"batchnorm": -3}, failed=[4])
    judged = look(one, found, 0.9)
    place = Answer(judged, one, ["diverged runs: 7"], tables={"runs": one, "chosen": one}).page(
        tmp_path, "normexp compare"
    )
    text = html.unescape(place.read_text())
    (difference,) = judged.differences
    for words in (
        "<th>minus none</th>", "<figure>", "<p>Diverged runs: 7.</p>", "We compared none, batchnorm by test error",
        f"<td>{found.metric.show(judged.arms[0].mean)}</td>",
        f"<td>{found.metric.show(difference.effect, sign=True)}</td>",
        "Failed runs: 0 of 10 with none, 1 of 10 with batchnorm",
    ):  # fmt: skip
        assert words in text, words
    (axes,) = differences(judged).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["batchnorm: not decided"]
    drawn = [[100 * end for end in difference.interval], [100 * difference.effect]]
    assert [list(line.get_xdata()) for line in axes.lines[1:]] == drawn
    assert list(pd.read_csv(tmp_path / "tables" / "comparison.csv")["arm"]) == ["none", "batchnorm"]
    tex = (tmp_path / "tables" / "comparison.tex").read_text()
    assert tex.count("\\\\") == 3
    assert re.findall(r"batchnorm & .* \{\[\}.*\] & .* \{\[\}.*, .*\] & (.*) \\\\", tex) == ["not decided"]
    assert "\\bottomrule" in tex
    assert not set("−±∞") & set(tex)


@pytest.mark.slow
def test_a_network_of_somebody_else_is_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "their_net.py").write_text(NETWORK)
    words = [
        *("model=module", "model.path=their_net.Net", "allow_targets=their_net", "data=digits"),
        *("norms=none,batchnorm", "rates=0.003,0.01", "max_steps=6", "seeds=5"),
    ]
    assert command("compare", [*words, "--plan"]) == 0
    planned = r"looks at 5 seeds, until all is decided: at most 20 runs, about .* of one core, and more where"
    assert re.search(planned, capsys.readouterr().out)
    assert not (tmp_path / "outputs").exists()
    assert command("compare", [*words, "--workers", "0"]) == 0
    assert "for every arm, so 20 runs become" in capsys.readouterr().out
    out = tmp_path / "outputs" / "compare" / "module-digits"
    before = (out / "index.html").read_bytes()
    assert b"5 pairs" in before
    assert (out / "figures" / "differences.pdf").stat().st_size > 2000
    assert (out / "tables" / "chosen.csv").read_text().count("\n") == 11
    assert command("compare", [*words, "metric=val/loss", "margin=0.1", "--workers", "0"]) == 0
    assert (out.with_name("module-digits-2") / "index.html").is_file()
    assert command("compare", [*words, "--workers", "0"]) == 0
    assert (out / "index.html").read_bytes() == before
