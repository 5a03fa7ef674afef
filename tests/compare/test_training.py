"""A training of somebody's own: what is called, what identifies a run, what resumes, and what is refused."""

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from normexp.cli.main import run as command
from normexp.compare.own_run import arguments_of, own_run, plain
from normexp.runs import read_summary

OWN = """
import math, os, random
from pathlib import Path

def train(norm, lr, seed, width=8):
    with Path("calls.txt").open("a") as file:
        file.write(f"{norm} {lr} {seed} {width}\\n")
    if norm == "batchnorm" and lr > 0.5:
        return {"val": math.nan, "test": math.nan}
    draw = random.Random(f"{norm} {lr} {seed}")
    gain = 0.1 * (norm == "batchnorm") - 0.05 * abs(math.log10(lr / 0.01))
    curve = [(step, math.exp(-step / (20 if norm == "none" else 10)) + 0.001 * draw.random()) for step in range(1, 40)]
    return {"val": 0.7 + gain + draw.gauss(0, 0.001), "test": 0.7 + gain + draw.gauss(0, 0.001), "curve": curve}

def alone(arm, seed):
    with Path("calls.txt").open("a") as file:
        file.write(f"{arm} {seed}\\n")
    found = {"none": 1.0, "1": 2.0, "True": 2.0}[str(arm)] + seed / 100 + (seed % 3) / 1000 * (arm == 1)
    return {"test": found, "other": math.nan} if arm == "none" else found

def positional(norm, seed, /):
    return 1.0

def falls(norm, seed):
    raise RuntimeError("no such data")

def ends(norm, seed):
    raise SystemExit(3)

def blind(norm, lr, seed):
    return {"test": 1.0}

def nothing(norm, seed):
    return None

def bent(norm, seed):
    return {"test": 1.0, "curve": [0.9, 0.8]}

def other(norm, seed):
    return {"test" if norm == "none" else "accuracy": 1.0}

def mixed(norm, seed):
    return {"accuracy": 80 + seed if norm == "none" else 0.81}

def wanders(norm, seed):
    os.chdir("/")
    return 1.0 + (norm == "batchnorm") + seed / 1000 * (norm == "none")

def needs(norm, seed, depth):
    return 1.0

number = 3
"""
WORDS = ["own.py:train", "arms=none,batchnorm", "metric=test", "better=higher", "margin=0.02"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a training of somebody's own."""
    name = f"own_{re.sub(r'[^a-z0-9]', '_', tmp_path.name)}"  # each test imports its own
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return lambda *words: command("compare", [word.replace("own.py", f"{name}.py") for word in words])


def calls(folder):
    return (folder / "calls.txt").read_text().splitlines()


@pytest.mark.integration
def test_a_function_is_tuned_judged_counted_and_resumed(here, tmp_path, capsys):
    words = [*WORDS, "rates=0.01,0.1,1", "width=16", "seeds=5", "--workers", "0"]

    def told(*more):
        assert here(*words, *more) == 0
        return capsys.readouterr().out

    assert "at most 30 runs, and more where" in told("--plan")  # no time is known before the first run
    first = told().replace("\n", " ")
    for said in (
        r"width=16\) and version=; its code is not read",
        r"each seed takes its best rate by val, the higher the better, as of test",
        r"batchnorm is better than none: test \+0\.1",
        r"it reaches an equal loss in (49|50|51)% fewer steps \((49|50)% to 5\d%\)",
        r"diverged runs: batchnorm at rate 1: 5",
        r"the best rate of batchnorm is the lowest \(0\.01\) in 5 of 5 seeds",
        r"0\.001 comes on top for every arm, so 30 runs become 40",
    ):
        assert re.search(said, first), said
    assert len(calls(tmp_path)) == len(set(calls(tmp_path))) == 40
    (out,) = (tmp_path / "outputs" / "compare").iterdir()
    page = (out / "index.html").read_text()
    assert "comes on top for every arm, so 30 runs become 40." in page
    assert "40 runs, of which 10 count: each seed&#39;s best of each arm; " in page
    assert set(pd.read_csv(out / "tables" / "chosen.csv")["lr"]) == {0.01}
    told()
    assert len(calls(tmp_path)) == 40
    (next(out.glob(".runs/none-*")) / "summary.json").unlink()  # as of a run that was killed
    told()
    assert len(calls(tmp_path)) == 41
    told("version=2")
    assert len(calls(tmp_path)) == 81
    assert len(list(out.parent.iterdir())) == 2
    assert "at most 30 runs, about 0" in told("--plan")  # 81 are finished


@pytest.mark.integration
def test_a_function_without_rates_gives_one_number_and_takes_any_arm(here, tmp_path, capsys):
    words = ["own.py:alone", "arms=none,1,true", "better=lower", "margin=0.5", "seeds=5", "--workers", "1"]
    assert here(*words) == 0
    told = capsys.readouterr().out
    assert all(f"{arm} is worse than none: test +1.00 " in told for arm in ("1", "true"))
    (found, *_) = sorted((tmp_path / "outputs" / "compare").glob("*/.runs/1-s0-*"))
    assert read_summary(found)["config"] == {"arm": 1, "seed": 0}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("function", "words", "said"),
    [
        ("falls", WORDS[1:], "10 runs crashed, the first: RuntimeError: no such data"),
        ("ends", WORDS[1:], "ends called sys.exit(3); return a number"),
        ("blind", [*WORDS[1:], "rates=1,2"], "metric=val: "),
        ("train", [*WORDS[1:], "rates=1,2", "depth=3"], "depth: is no argument of "),
        ("train", [*WORDS[1:], "rates=1,2", "lr=3"], "lr=3: is chosen by the comparison"),
        ("train", WORDS[1:], "takes lr, so write those to try, rates="),
        ("alone", [*WORDS[1:], "rates=1,2"], "takes no lr; add this argument"),
        ("absent", WORDS[1:], "AttributeError"),
        ("nothing", WORDS[1:], "nothing returned None; return a number, or numbers by name"),
        ("positional", WORDS[1:], "takes nothing; write def train(arm, lr, seed)"),
        ("bent", WORDS[1:], "returned {'test': 1.0, 'curve': [0.9, 0.8]}; return a number"),
        ("other", WORDS[1:], "with batchnorm returns accuracy; return it for every arm"),
        ("needs", WORDS[1:], "has no default for it; write depth=VALUE"),
        ("number", WORDS[1:], "is 3, no function; name one"),
        ("alone", ["arms=0.1,0.10", *WORDS[2:]], "arms=0.1,0.10: two of them are one value for "),
        ("mixed", [WORDS[1], "metric=accuracy", WORDS[4]], "is a share beside a percent"),
        ("train", [*WORDS[2:], "rates=1,2"], "arms: name two or more"),
        ("train", [*WORDS[1:3], "margin=1", "rates=1"], "metric=test: which way is better?"),
        ("train", [*WORDS[1:4], "rates=1"], "margin: practice knows none for test"),
        ("train", [*WORDS[1:3], "rates=1"], "smallest difference that matters, and better=higher or better=lower"),
    ],
)  # fmt: skip
def test_a_function_that_does_not_fit_is_one_line(function, words, said, here, capsys):
    assert here(f"own.py:{function}", *words, "seeds=5", "--workers", "0") != 0
    assert said in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_script_that_is_not_there_is_one_line(here, capsys):
    assert here("none.py:train", *WORDS[1:]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.integration
def test_a_function_that_changes_the_folder_is_recorded_here(here, tmp_path, capsys):
    assert here("own.py:wanders", *WORDS[1:], "--workers", "0") == 0
    assert "batchnorm is better than none" in capsys.readouterr().out
    assert (Path.cwd(), len(list(tmp_path.rglob("summary.json")))) == (tmp_path, 10)


def test_a_run_is_known_by_its_arguments_and_version(tmp_path):
    def digests(version="", target="a.py:train", **more):
        keys = itertools.product(["none", "bn"], [0.1, 0.2], range(3))
        given = [{"norm": norm, "lr": lr, "seed": seed, **more} for norm, lr, seed in keys]
        return {own_run(target, version, tmp_path, own).digest for own in given}

    assert len(digests()) == 12
    for other in (digests("2"), digests(width=3), digests(target="b.py:train")):
        assert not digests() & other
    assert digests(target="/elsewhere/a.py:train") == digests()


def test_a_finished_run_is_not_computed_again(here, tmp_path):
    (module,) = tmp_path.glob("own_*.py")
    run = own_run(f"{module.stem}:alone", "", tmp_path / "out", {"arm": "none", "seed": 3})
    first = run.train()
    assert first["metrics"]["test"] == pytest.approx(1.03)
    assert run.train()["metrics"]["test"] == first["metrics"]["test"]
    assert calls(tmp_path) == ["none 3"]


def test_words_become_values():
    words = {"1": 1, "0.5": 0.5, "true": True, "none": "none", "no": "no", "1e-3": 1e-3}
    assert [plain(text) for text in words] == [*words.values()]
    assert np.isnan(plain("nan"))


def test_a_script_that_ends_as_it_is_imported_is_one_line(tmp_path):
    (tmp_path / "own_script.py").write_text("def train(norm, seed): ...\nraise SystemExit(0)\n")
    with refused(r"^train=.*own_script.py:train: SystemExit \(0\); check"):
        arguments_of(f"{tmp_path}/own_script.py:train", [])
