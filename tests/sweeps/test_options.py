"""The flags of all commands that run many, and the places that they name."""

import importlib.util
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest
from command_words import options_of
from hydra.core.override_parser.overrides_parser import OverridesParser
from refusals import refused

from normexp.cli import train
from normexp.cli.compare import compare
from normexp.cli.verify import verify
from normexp.config.errors import checked
from normexp.config.folder import ALLOWED, VARIABLE
from normexp.config.run_spec import RunSpec
from normexp.format import installs
from normexp.sweeps.job import Job
from normexp.sweeps.options import Options, SweepOptions
from normexp.sweeps.places import choose_place

RUN = Job(RunSpec({"trainer": {"accelerator": "cpu"}, "threads": None}, {}, "", Path()), [], 1, Path())


def test_a_command_takes_options_as_flags_and_as_words():
    words = ["--place", "slurm", "claim=P10", "--time-limit=02:00:00", "--plan", "gpus=0.25"]
    words += ["--slurm", "partition=gpu", "--slurm=exclusive=true", "--slurm", "time=02:00:00"]
    slurm = {"partition": "gpu", "exclusive": True, "time": "02:00:00"}
    wanted = Options(place="slurm", time_limit="02:00:00", plan=True, gpus=0.25, slurm=slurm)
    given = options_of(verify, words)
    assert (given["claim"], given["engine"]) == ("P10", wanted)
    assert wanted.time_limit == timedelta(hours=2)
    assert options_of(compare, ["--metric", "val/loss", "--plan"])["metric"] == "val/loss"  # a key of its own


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--place", "moon"], "place='moon': choose from here, slurm, local, ray"),
        (["--workers", "-1"], "workers='-1': must be at least 0"),
        (["--workers", "two"], "workers='two': must be a whole number"),
        (["--time-limit", "2h"], "time_limit='2h': must be a time, 02:00:00"),
        (["--gpus", "half"], "gpus='half': must be a number"),
        (["--place", "slurm", "--workers", "0"], "workers=0: runs inside this process"),
        (["--gpus", "1"], "gpus=1: is for clusters; runs_per_gpu"),
        (["--place"], "place: a value is missing"),
        (["--slurm", "a b=me"], "slurm: a b=.*: write an option of sbatch, account=mine"),
        (["--slurm"], "--slurm=: a value is missing"),
        (["--slurm", "gpu"], "slurm: a value is missing"),
        (["--metric", "val/loss"], "--metric: no such option"),
    ],
)
def test_wrong_flag_is_one_line(flags, message):
    with refused(message):
        options_of(verify, flags)


def test_an_option_of_sbatch_is_one_line():
    with refused(r"slurm: account=.*: write an option of sbatch"):
        checked(SweepOptions, {"slurm": {"account": "me\n#SBATCH --wrap=x"}}, "hydra.launcher")
    with refused(r"hydra\.launcher: metric=val/quality: which way"):
        checked(SweepOptions, {"metric": "val/quality"}, "hydra.launcher")
    with refused(r"hydra\.launcher.workers='2': must be a whole number"):
        checked(SweepOptions, {"workers": "2"}, "hydra.launcher")


def test_sweep_takes_the_flags_as_keys_of_its_launcher_and_a_single_run_refuses_them(monkeypatch):
    seen: list[list[str]] = []
    monkeypatch.setenv(ALLOWED, "")
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(train, "sweep", lambda words, own: seen.append(words))
    train.train(["-m", "seed=0,1", "--gpus", "2", "--slurm", "account=me"])
    assert seen.pop() == ["seed=0,1", "hydra.launcher.gpus=2", "++hydra.launcher.slurm.account=me"]
    train.train(["-m", "--slurm", "constraint=a;b's", "--slurm", "comment=x y"])
    parsed = OverridesParser.create().parse_overrides(seen.pop())
    assert [override.value() for override in parsed] == ["a;b's", "x y"]
    train.train(["experiment=depth", "--plan"])
    assert seen.pop()[1:] == ["hydra.launcher.plan=true"]
    train.train(["-m", "--metric", "val/quality", "--better", "higher"])
    assert seen.pop() == ["hydra.launcher.metric=val/quality", "hydra.launcher.better=higher"]
    mistakes = {("seed=0", "--plan"): "--plan: is for sweeps; add -m"}
    mistakes["-m", "--place"] = "--place: a value is missing; write --place=VALUE"
    for words, message in mistakes.items():
        with refused(message):
            train.train(list(words))


@pytest.mark.parametrize(("place", "package"), [("slurm", "submitit"), ("ray", "ray")])
def test_place_whose_extra_is_absent_says_what_to_install(place, package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with refused(rf"place={place}: needs {package}; {re.escape(installs(place))}"):
        choose_place(Options(place=place), [RUN], tmp_path)


def test_every_place_has_a_class_and_no_name_goes_to_that_of_another(tmp_path):
    for place in get_args(Options.model_fields["place"].annotation):
        if place not in ("slurm", "local") or importlib.util.find_spec("submitit"):
            choose_place(Options(place=place, plan=True), [RUN], tmp_path)
    with refused("place=moon: has no class"):
        choose_place(Options().model_copy(update={"place": "moon"}), [RUN], tmp_path)


def test_slurm_where_there_is_none_is_one_line(monkeypatch, tmp_path):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with refused("place=slurm: Could not detect"):
        choose_place(Options(place="slurm"), [RUN], tmp_path)


def test_a_plan_shows_what_a_cluster_would_get_and_needs_none(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    asked = Options(place="ray", gpus=0.25, plan=True)
    assert next(iter(choose_place(asked, [RUN], tmp_path).draft())).startswith(
        "ray       gets a task for each run: num_cpus=1, num_gpus=0.25; "
    )
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = choose_place(Options(place="slurm", slurm={"account": "me"}, plan=True), [RUN], tmp_path / "new")
    asked = {f"  #SBATCH --{option}" for option in ("account=me", "time=60", "cpus-per-task=1")}
    assert asked <= set(found.draft())
    with refused(r"slurm=gress: no such option; did you mean gres\?"):
        choose_place(Options(place="slurm", slurm={"gress": "gpu:1"}, plan=True), [RUN], tmp_path / "new")
    assert not (tmp_path / "new").exists()
