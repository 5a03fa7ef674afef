"""The looks of a training whose runs a formula makes up: when it ends, when it adds rates, and what it says."""

import itertools
import math
from types import SimpleNamespace

import pandas as pd
import pytest
from refusals import refused

from normexp.compare import run, training
from normexp.compare.judged import METRICS, Design
from normexp.compare.training import NORMS, of_model, status_of
from normexp.runs import write_summary
from normexp.sweeps.options import Options


class Made:
    """A training: arm, rate, seed -> what its run has, beside the values that others have."""

    def __init__(self, of):
        self.of = of

    def grid(self, design, rates, seeds):
        keys = itertools.product(design.norms, design.levels, rates or (None,), range(seeds))
        return {key: SimpleNamespace(folder=None) for key in keys}

    def read(self, planned):
        usual = {
            "setting": "", "status": "completed", "value": 0.1, "score": 0.0, "tie": 0.0, "guess": 0.9, "folder": "",
            "seconds": 30.0,
        }  # fmt: skip
        names = ("arm", "level", "lr", "seed")
        rows = [dict(zip(names, key, strict=True)) | usual | self.of(key[0], *key[2:]) for key in planned]
        return pd.DataFrame(rows).astype({"lr": float})


@pytest.fixture
def looked(monkeypatch, tmp_path, capsys):
    """Look at made runs; returns the answer and the lines that were told."""
    monkeypatch.setattr(run, "curve_of", lambda folder: None)

    def looked(of, cells=(), options=None, **more):
        monkeypatch.setattr(run, "run", lambda *_, **__: list(cells))
        metric = METRICS["test/error"]
        design = Design(name="x", norms=("none", "bn"), margin=0.01, metric=metric, looks=(5, 10, 20), **more)
        answer = run.compare(design, Made(of), tmp_path, "", options or Options())
        return answer, capsys.readouterr().out.splitlines()

    return looked


def noisy(points):
    """Better by these points, with a noise that ten seeds see through and five do not."""
    return lambda arm, lr, seed: {"value": 0.1 - (arm == "bn") * (points / 100 + 0.012 * (-1) ** seed)}


gain, at_the_margin = noisy(3), noisy(1)


def gained(arm, lr, seed, **more):
    return gain(arm, lr, seed) | more


def test_it_ends_with_the_look_that_decides_all(looked):
    answer, told = looked(gain)
    assert told == [
        "look 1 of 3, 5 seeds, test error against none: bn not decided",
        "look 2 of 3, 10 seeds, test error against none: bn better",
    ]
    assert (answer.ended, answer.look.seeds) == ("every difference is decided", 10)
    assert answer.facts[1:] == ["2 of 3 looks", "10.0 minutes of training"]
    assert looked(at_the_margin)[0].ended == "all 20 seeds are trained"


@pytest.mark.parametrize(("budget", "seeds"), [(9.9, 5), (10.0, 10), (19.9, 10), (20.0, 20)])
def test_no_look_begins_that_the_budget_would_not_hold(budget, seeds, looked):
    answer, _ = looked(at_the_margin, budget=budget)  # half a minute for each of ten runs of five seeds
    assert answer.look.seeds == seeds
    said = f"the budget of {budget:g} minutes of one core would not hold {2 * seeds} seeds"
    assert answer.ended == (said if seeds < 20 else "all 20 seeds are trained")


def test_rates_at_the_edge_are_added_twice_and_then_said(looked):
    lowest = (
        "the best rate of bn is the lowest (0.1) in 5 of 5 seeds, of none is the lowest (0.1) in 5 of 5 seeds"
    )
    answer, told = looked(lambda *key: gained(*key, score=-key[1]), rates=(0.1, 1.0))
    assert told[0] == answer.notes[0] == f"{lowest}: 0.01 comes on top for every arm, so 20 runs become 30"
    assert answer.notes[1].endswith(": 0.001 comes on top for every arm, so 30 runs become 40")
    assert answer.notes[2].endswith(
        "(0.001) in 10 of 10 seeds, and there it stayed: a rate beyond may be better"
    )
    assert answer.look.design.rates == (0.001, 0.01, 0.1, 1.0)
    _, (ends, *_) = looked(
        lambda *key: gained(*key, score=key[1] * (1 if key[0] == "bn" else -1)), rates=(0.1, 1.0)
    )
    assert ends.endswith("0.01 and 10 come on top for every arm, so 20 runs become 40")
    inner, _ = looked(lambda *key: gained(*key, score=-abs(key[1] - 1)), rates=(0.1, 1.0, 10.0))
    assert inner.notes == []


def test_only_arms_that_made_the_rates_wider_are_told(looked):
    """One of five seeds at an edge is not too many, also where another of them failed at every rate."""

    def made(arm, lr, seed):
        few = {"status": "failed"} if seed == 4 else {"score": -lr if seed == 3 else -abs(lr - 1)}
        return gain(arm, lr, seed) | (few if arm == "bn" else {"score": -lr})

    answer, _ = looked(made, rates=(0.1, 1.0, 10.0))
    assert answer.notes[0].startswith(
        "the best rate of none is the lowest (0.1) in 5 of 5 seeds: 0.01 comes on top"
    )


def test_runs_that_failed_are_counted_and_all_of_them_end_it(looked):
    answer, _ = looked(
        lambda *key: gained(*key, **{"status": "diverged"} if key[1] == 1 else {}), rates=(0.1, 1.0)
    )
    assert "diverged runs: none at rate 1: 10; bn at rate 1: 10" in answer.notes
    third, _ = looked(lambda *key: gained(*key, **{"status": "failed"} if key[2] % 3 == 0 else {}))
    assert [arm.failed for arm in third.look.arms] == [7, 7]
    lost = [SimpleNamespace(state="crashed", error="no memory"), SimpleNamespace(state="completed")]
    for status, cells, rates, said in (
        ("diverged", (), (0.1, 1.0), "rates=0.1,1: every run of none and bn diverged; write lower rates="),
        ("failed", (), (0.1, 1.0), "rates=0.1,1: every run of none and bn failed to learn; train longer"),
        ("diverged", (), (), "^every run of none and bn failed: none gave a"),
        ("completed", lost, (), "1 run crashed, the first: no memory"),
    ):
        with refused(said):
            looked(lambda *_, status=status: {"status": status}, cells, rates=rates)


@pytest.mark.parametrize(
    ("timed", "done", "time"), [([{"a": 20.0, "b": 10.0}], None, "40:00 min"), ([], 3.0, "4:00 min")]
)
def test_a_plan_says_how_many_runs_and_how_long(timed, done, time, looked, monkeypatch):
    monkeypatch.setattr(run, "seconds_of_each", lambda specs: timed)
    monkeypatch.setattr(run, "read_summary", lambda folder: done and {"seconds": done})
    answer, (told, *_) = looked(gain, options=Options(plan=True), rates=(0.1, 1.0), budget=7.0)
    assert answer is None
    said = f"looks at 5, 10, 20 seeds, until all is decided: at most 80 runs, about {time} of one core, and more where"
    assert told.startswith(said)
    assert told.endswith("no look begins after 7 minutes of one core (budget=)")
    assert "rate" not in looked(gain, options=Options(plan=True))[1][0]


@pytest.mark.parametrize(
    ("status", "loss", "found"),
    [("completed", 2.0, "completed"), ("completed", 2.3, "failed"), ("completed", None, "completed"),
     ("completed", 99.0, "failed"), ("diverged", 99.0, "diverged")],
)  # fmt: skip
def test_a_run_that_only_guesses_has_failed(status, loss, found):
    assert status_of({"status": status, "metrics": {"train/loss": loss}, "chance_loss": 2.3}) == found


OPTIONS = {
    "arms": (), "metric": None, "better": None, "margin": None, "batch_sizes": (), "rates": (), "guess": None,
    "name": "", "looks": (5,),
}  # fmt: skip


@pytest.mark.parametrize(
    ("metric", "margin", "chosen_by"),
    [
        (None, None, {"val/accuracy": 1, "val/loss": -1}), ("loss", None, {"val/loss": -1, "val/accuracy": 1}),
        ("test/f1", 0.1, {"val/f1": 1, "val/loss": -1}), ("train/loss", 0.1, {"val/accuracy": 1, "val/loss": -1}),
    ],
)  # fmt: skip
def test_words_of_a_network_become_a_design(metric, margin, chosen_by, tmp_path):
    options = OPTIONS | {"metric": metric, "margin": margin, "out": tmp_path}
    design, made = of_model(["model=mlp", "data=digits"], **options)
    assert (design.norms, design.levels, design.name) == (NORMS, ("",), "mlp-digits")
    assert len(design.rates) == 5
    assert list(made.chosen_by.items()) == list(chosen_by.items())
    options |= {"arms": ("a", "b"), "batch_sizes": (8, 8, 2), "rates": (1, 0.1, 1)}
    sized, made = of_model(["model=mlp"], **options)
    assert (sized.norms, sized.levels, sized.rates) == (("a", "b"), (8, 2), (0.1, 1))
    spec = made.make("layernorm", 8, 0.1, 3)
    assert [spec.config[key] for key in ("batch_size", "lr", "seed")] == [8, 0.1, 3]


def test_runs_are_read_with_the_score_that_chooses_among_them(tmp_path):
    options = OPTIONS | {"arms": ("none", "bn"), "rates": (0.1,), "out": tmp_path}
    _, made = of_model(["model=mlp", "data=digits"], **options)
    folders = [tmp_path / str(seed) for seed in range(2)]
    rest = {name: {} for name in ("choices", "config", "convergence", "execution", "versions")}
    rest |= {"hash": "", "status": "completed", "seconds": 3.0, "chance_loss": math.log(10)}
    for seed, folder in enumerate(folders):
        metrics = {
            "test/accuracy": 0.9 - seed / 10,
            "val/accuracy": 0.8,
            "val/loss": 0.5 + seed,
            "train/loss": 1.0,
        }
        folder.mkdir()
        write_summary(folder, rest | {"metrics": metrics})
    rows = made.read(
        {("none", "", 0.1, seed): SimpleNamespace(folder=own) for seed, own in enumerate(folders)}
    )
    assert rows["value"].tolist() == pytest.approx([0.1, 0.2])
    assert (rows["score"].tolist(), rows["tie"].tolist()) == ([0.8, 0.8], [-0.5, -1.5])
    assert rows["guess"].tolist() == pytest.approx([0.9, 0.9])
    assert rows[["arm", "lr", "seed", "status"]].to_numpy().tolist()[1] == ["none", 0.1, 1, "completed"]
    assert rows["folder"].tolist() == [str(folder) for folder in folders]
    assert training.curve_of(rows["folder"][0]) is None
