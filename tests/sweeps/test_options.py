"""The flags of all commands that run many, and the places that they name."""

import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from normexp.cli import train
from normexp.config.errors import one_line
from normexp.config.run_spec import RunSpec
from normexp.sweeps.options import Options, as_options, options_of, take_flags
from normexp.sweeps.place import choose_place

RUN = RunSpec({"trainer": {"accelerator": "cpu"}, "threads": None}, {}, "", Path())


def test_flags_are_taken_out_and_mean_what_they_say():
    arguments = ["-m", "--place", "slurm", "norm=none", "--time-limit=2h", "--plan", "--gpus=0.25"]
    arguments += ["--slurm", "partition=gpu"]
    rest, given = take_flags(arguments)
    assert rest == ["-m", "norm=none"]
    wanted = Options(place="slurm", time_limit="2h", plan=True, gpus=0.25, slurm={"partition": "gpu"})
    assert options_of(given) == wanted
    assert wanted.time_limit == 7200
    assert Options(memory="1.5GB").memory == 1.5e9


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--place", "moon"], "--place='moon': choose from here, slurm, local, debug, ray"),
        (["--workers", "-1"], "--workers=-1: must be at least 0"),
        (["--workers", "two"], "--workers='two': must be a whole number"),
        (["--time-limit", "2"], "--time-limit=2: write 30min, 2h, 1d"),
        (["--memory", "much"], "--memory=much: write 500MB, 4GB"),
        (["--gpus", "half"], "--gpus='half': must be a number"),
        (["--place", "slurm", "--workers", "0"], "--workers=0: runs inside this process"),
        (["--gpus", "1"], "--gpus=1: is for clusters; runs_per_gpu"),
        (["--time-limit", "2h", "--place", "ray"], "--time-limit=7200: is for jobs of Slurm"),
        (["--place"], "--place: needs a value"),
        (["--slurm", "a b=me"], "--slurm=a b=.*: write an option of sbatch, account=mine"),
    ],
)
def test_wrong_flag_is_one_line(flags, message):
    with pytest.raises(ValueError, match=message) as error:
        options_of(take_flags(flags)[1])
    assert "\n" not in str(error.value)


def test_an_option_of_sbatch_is_one_line():
    with pytest.raises(ValueError, match=r"hydra.launcher.slurm=account=.*: write an option of sbatch"):
        as_options({"slurm": {"account": "me\n#SBATCH --wrap=x"}}, "hydra.launcher.")


def test_sweep_takes_the_flags_as_keys_of_its_launcher_and_a_single_run_refuses_them():
    found = train.launcher_flags(["-m", "seed=0,1", "--time-limit", "2h", "--slurm", "account=me"])
    assert found == ["-m", "seed=0,1", "hydra.launcher.time_limit=2h", "++hydra.launcher.slurm.account=me"]
    quoted = train.launcher_flags(["-m", "--slurm", "constraint=a;b's", "--slurm", "comment=x y"])
    parsed = OverridesParser.create().parse_overrides(quoted[1:])
    assert [override.value() for override in parsed] == ["a;b's", "x y"]
    assert train.launcher_flags(["experiment=depth", "--plan"])[1:] == ["hydra.launcher.plan=true"]
    with pytest.raises(ValueError, match="--plan: is for sweeps; add -m"):
        train.launcher_flags(["seed=0", "--plan"])


@pytest.mark.parametrize(("place", "package"), [("slurm", "submitit"), ("ray", "ray")])
def test_place_whose_extra_is_absent_says_what_to_install(place, package, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ValueError, match=rf'place={place}: needs {package}; pip install "normexp\[{place}\]"'
    ):
        choose_place(Options(place=place), [RUN], tmp_path)


def test_slurm_where_there_is_none_is_one_line(monkeypatch, tmp_path):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="place=slurm: no sbatch on the path"):
        choose_place(Options(place="slurm"), [RUN], tmp_path)


def test_launcher_of_hydra_whose_package_is_absent_says_what_to_install():
    where = "Available options in 'hydra/launcher':\n\tbasic\n\tnormexp\nConfig search path:"
    said = f"Could not find 'hydra/launcher/joblib'\n\n{where}"
    assert (
        one_line(ValueError(said)) == 'hydra/launcher=joblib: needs a package; pip install "normexp[joblib]"'
    )


@pytest.mark.parametrize("key", ["hydra.sweep.dir", "hydra.sweep.subdir"])
def test_folder_that_a_sweep_would_not_use_is_refused(key):
    assert train.find_mistake(["-m", f"{key}=x", "seed=0,1"]) == f"{key}=x: is not read; write outputs=x"
