"""The looks of a training whose runs a formula makes up: when it ends, when it adds rates, and what it says."""

import itertools
from types import SimpleNamespace

import pandas as pd
import pytest

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
            "setting": "",
            "status": "completed",
            "value": 0.1,
            "score": 0.0,
            "tie": 0.0,
            "guess": 0.9,
            "folder": "",
        }
        rows = [
            {"arm": arm, "level": level, "lr": lr, "seed": seed, "seconds": 30.0, "folder": ""}
            | usual
            | self.of(arm, lr, seed)
            for arm, level, lr, seed in planned
        ]
        return pd.DataFrame(rows).astype({"lr": float})


@pytest.fixture
def looked(monkeypatch, tmp_path, capsys):
    """Look at made runs; returns the answer and the lines that were told."""

    def looked(of, cells=(), options=None, **more):
        monkeypatch.setattr(run, "curve_of", lambda folder: None)
        monkeypatch.setattr(run, "run", lambda *_, **__: list(cells))
        design = Design(
            name="x",
            norms=("none", "bn"),
            margin=0.01,
            metric=METRICS["test/error"],
            looks=(5, 10, 20),
            **more,
        )
        answer = run.compare(design, Made(of), tmp_path, "", options or Options())
        return answer, capsys.readouterr().out.splitlines()

    return looked


def gain(arm, lr, seed):
    """Better by three points, with a noise that ten seeds see through and five do not."""
    return {"value": 0.1 - (arm == "bn") * (0.03 + 0.012 * (-1) ** seed)}


def at_the_margin(arm, lr, seed):
    return {"value": 0.1 - (arm == "bn") * (0.01 + 0.012 * (-1) ** seed)}


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
    answer, told = looked(lambda arm, lr, seed: gain(arm, lr, seed) | {"score": -lr}, rates=(0.1, 1.0))
    first = (
        "the best rate of bn is the lowest (0.1) in 5 of 5 seeds, of none is the lowest (0.1) in 5 of 5 seeds"
    )
    assert told[:1] == [f"{first}: 0.01 comes on top for every arm, so 20 runs become 30"]
    assert answer.notes[0] == told[0]
    assert [note.rpartition(": ")[2] for note in answer.notes[:2]] == [
        "0.01 comes on top for every arm, so 20 runs become 30",
        "0.001 comes on top for every arm, so 30 runs become 40",
    ]
    assert answer.notes[2].endswith(
        "(0.001) in 10 of 10 seeds, and there it stayed: a rate beyond may be better"
    )
    assert answer.look.design.rates == (0.001, 0.01, 0.1, 1.0)
    ends = lambda arm, lr, seed: gain(arm, lr, seed) | {"score": lr if arm == "bn" else -lr}  # noqa: E731
    assert looked(ends, rates=(0.1, 1.0))[1][0].endswith(
        "0.01 and 10 come on top for every arm, so 20 runs become 40"
    )
    inner = looked(lambda *key: gain(*key) | {"score": -abs(key[1] - 1)}, rates=(0.1, 1.0, 10.0))[0]
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
    one = lambda arm, lr, seed: gain(arm, lr, seed) | {"status": "diverged" if lr == 1 else "completed"}  # noqa: E731
    answer, _ = looked(one, rates=(0.1, 1.0))
    assert "diverged runs: none at rate 1: 10; bn at rate 1: 10" in answer.notes
    third = lambda arm, lr, seed: gain(arm, lr, seed) | {"status": "failed" if seed % 3 == 0 else "completed"}  # noqa: E731
    assert [arm.failed for arm in looked(third)[0].look.arms] == [7, 7]
    for status, said in (
        ("diverged", "diverged; write lower rates="),
        ("failed", "failed to learn; train longer"),
    ):
        with pytest.raises(ValueError, match=f"rates=0.1,1: every run of none and bn {said}"):
            looked(lambda *_, status=status: {"status": status}, rates=(0.1, 1.0))
    with pytest.raises(ValueError, match=r"^every run of none and bn failed: none gave a"):
        looked(lambda *_: {"status": "diverged"})
    lost = [SimpleNamespace(state="crashed", error="no memory"), SimpleNamespace(state="completed")]
    with pytest.raises(ValueError, match="1 run crashed, the first: no memory"):
        looked(gain, lost)


@pytest.mark.parametrize(
    ("timed", "done", "time"), [([{"a": 20.0, "b": 10.0}], None, "40:00 min"), ([], 3.0, "4:00 min")]
)
def test_a_plan_says_how_many_runs_and_how_long(timed, done, time, looked, monkeypatch):
    monkeypatch.setattr(run, "seconds_of_each", lambda specs: timed)
    monkeypatch.setattr(run, "read_summary", lambda folder: done and {"seconds": done})
    answer, told = looked(gain, options=Options(plan=True), rates=(0.1, 1.0), budget=7.0)
    assert answer is None
    assert told[0].startswith(
        f"looks at 5, 10, 20 seeds, until all is decided: at most 80 runs, about {time} of one core, and more where"
    )
    assert told[0].endswith("no look begins after 7 minutes of one core (budget=)")
    _, told = looked(gain, options=Options(plan=True))
    assert "rate" not in told[0]


@pytest.mark.parametrize(
    ("status", "loss", "found"),
    [("completed", 2.0, "completed"), ("completed", 2.3, "failed"), ("completed", None, "completed"),
     ("completed", 99.0, "failed"), ("diverged", 99.0, "diverged")],
)  # fmt: skip
def test_a_run_that_only_guesses_has_failed(status, loss, found):
    assert status_of({"status": status, "metrics": {"train/loss": loss}, "chance_loss": 2.3}) == found


@pytest.mark.parametrize(
    ("metric", "margin", "chosen_by"),
    [
        (None, None, {"val/accuracy": 1, "val/loss": -1}),
        ("loss", None, {"val/loss": -1, "val/accuracy": 1}),
        ("test/f1", 0.1, {"val/f1": 1, "val/loss": -1}),
        ("train/loss", 0.1, {"val/accuracy": 1, "val/loss": -1}),
    ],
)
def test_words_of_a_network_become_a_design(metric, margin, chosen_by, tmp_path):
    options = {"batch_sizes": (), "rates": (), "guess": None, "name": "", "out": tmp_path, "looks": (5,)}
    options |= {"metric": metric, "better": None, "margin": margin}
    design, made = of_model(["model=mlp", "data=digits"], arms=(), **options)
    assert (design.norms, design.levels, design.name) == (NORMS, ("",), "mlp-digits")
    assert len(design.rates) == 5
    assert list(made.chosen_by.items()) == list(chosen_by.items())
    sized, made = of_model(
        ["model=mlp"], arms=("a", "b"), **options | {"batch_sizes": (8, 8, 2), "rates": (1, 0.1, 1)}
    )
    assert (sized.norms, sized.levels, sized.rates) == (("a", "b"), (8, 2), (0.1, 1))
    spec = made.make("layernorm", 8, 0.1, 3)
    assert [spec.config[key] for key in ("batch_size", "lr", "seed")] == [8, 0.1, 3]


def test_runs_are_read_with_the_score_that_chooses_among_them(tmp_path):
    _, made = of_model(
        ["model=mlp", "data=digits"], arms=("none", "bn"), metric=None, better=None, margin=None, batch_sizes=(),
        rates=(0.1,), guess=None, name="", out=tmp_path, looks=(5,),
    )  # fmt: skip
    planned = {("none", "", 0.1, seed): SimpleNamespace(folder=tmp_path / str(seed)) for seed in range(2)}
    for seed in range(2):
        metrics = {
            "test/accuracy": 0.9 - seed / 10,
            "val/accuracy": 0.8,
            "val/loss": 0.5 + seed,
            "train/loss": 1.0,
        }
        (tmp_path / str(seed)).mkdir()
        groups: dict[str, dict] = {
            name: {} for name in ("choices", "config", "convergence", "execution", "versions")
        }
        write_summary(
            tmp_path / str(seed),
            groups
            | {
                "hash": "",
                "status": "completed",
                "metrics": metrics,
                "seconds": 3.0,
                "chance_loss": training.math.log(10),
            },
        )
    rows = made.read(planned)
    assert rows["value"].tolist() == pytest.approx([0.1, 0.2])
    assert (rows["score"].tolist(), rows["tie"].tolist()) == ([0.8, 0.8], [-0.5, -1.5])
    assert rows["guess"].tolist() == pytest.approx([0.9, 0.9])
    assert rows[["arm", "lr", "seed", "status"]].to_numpy().tolist()[1] == ["none", 0.1, 1, "completed"]
    assert rows["folder"].tolist() == [str(tmp_path / "0"), str(tmp_path / "1")]
    assert training.curve_of(rows["folder"][0]) is None
