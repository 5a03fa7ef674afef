"""A folder given by --config-dir may be a stranger's: what its files may not ask of Hydra, and nothing of it ran."""

import pytest
import yaml
from forked import forked
from hostile import doubling_references, doubling_yaml, write_trap
from hydra import compose, initialize_config_dir

from normexp.config.compose import check_command_line
from normexp.config.folder import CONFIGS


@pytest.fixture
def brought(tmp_path):
    """Composes as train.py does under `--config-dir`, with one file of a stranger's folder; gives Hydra's node."""
    folder = tmp_path / "brought"

    def load(text: str, *arguments: str, group: str = "experiment"):
        (folder / group).mkdir(parents=True, exist_ok=True)
        (folder / group / "nice.yaml").write_text(text)
        overrides = [f"hydra.searchpath=[file://{folder}]", f"{group}=nice", *arguments]
        check_command_line(overrides)
        with initialize_config_dir(str(CONFIGS), version_base="1.3"):
            return compose("train", overrides=overrides, return_hydra_config=True).hydra

    return load


def preset(hydra: dict) -> str:
    return "# @package _global_\n" + yaml.safe_dump({"hydra": hydra})


TARGET = {"_target_": "joblib.load", "filename": "x"}
REFUSED = {
    "callback": ({"callbacks": {"x": TARGET}}, "hydra.callbacks="),
    "callbacks by a reference": ({"callbacks": "${model}"}, "hydra.callbacks="),
    "launcher": ({"launcher": {"workers": TARGET}}, r"hydra.launcher.workers._target_=joblib.load"),
    "launcher's class": ({"launcher": {"_target_": "joblib.load"}}, r"hydra.launcher._target_=joblib.load"),
    "launcher in a list": ({"launcher": {"workers": [TARGET]}}, r"hydra.launcher.workers.0._target_=joblib.load"),
    "launcher by a reference": ({"launcher": {"workers": "${optimizer}"}}, r"hydra.launcher.workers._target_=torch"),
    "sweeper": ({"sweeper": {"max_batch_size": TARGET}}, r"hydra.sweeper.max_batch_size._target_=joblib.load"),
    "logging's factory": (
        {"job_logging": {"handlers": {"x": {"()": "joblib.load", "filename": "x"}}}}, "hydra.job_logging=",
    ),
    "logging's import": (
        {"hydra_logging": {"handlers": {"x": {"class": "logging.StreamHandler", "stream": "ext://this.s"}}}},
        "hydra.hydra_logging=",
    ),
    "logging's file": (
        {"job_logging": {"handlers": {"x": {"class": "logging.FileHandler", "filename": "/tmp/x"}}}},
        "hydra.job_logging=",
    ),
    "environment": ({"job": {"env_set": {"NORMEXP_ALLOW_TARGETS": "joblib"}}}, "hydra.job.env_set="),
    "environment copied": ({"job": {"env_copy": ["HOME"]}}, "hydra.job.env_(set|copy)="),
    "another folder": ({"job": {"chdir": True}}, "hydra.job.chdir=True"),
    "files beside": ({"output_subdir": "../x"}, "hydra.output_subdir="),
    "run's folder": ({"run": {"dir": "/tmp/x"}}, "hydra.run.dir=/tmp/x"),
    "sweep's folder": ({"sweep": {"dir": "/tmp/x"}}, "hydra.sweep.dir=/tmp/x"),
    "sweep's subfolder": ({"sweep": {"subdir": "../x"}}, "hydra.sweep.subdir="),
    "shell commands of a cluster": ({"launcher": {"setup": ["rm -r x"]}}, "hydra.launcher.setup="),
    "interpreter of a cluster": ({"launcher": {"python": "x"}}, "hydra.launcher.python=x"),
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("name", REFUSED)
def test_file_may_not_set_what_hydra_acts_on(name, brought):
    asked, message = REFUSED[name]
    with pytest.raises(
        ValueError, match=rf"^{message}.*: no file can set it; if you trust it, give it on the command"
    ):
        brought(preset(asked))


def test_what_stands_on_the_command_line_is_the_users_own(brought):
    hydra = brought(preset({"job": {"env_set": {"A": "b"}}}), "hydra.job.env_set.A=c")
    assert hydra.job.env_set == {"A": "c"}


def test_file_may_make_a_sweep(brought):
    node = {"mode": "MULTIRUN", "sweeper": {"params": {"seed": "0,1"}}, "launcher": {"workers": 2}}
    hydra = brought(preset(node))
    assert (hydra.mode.name, hydra.sweeper.params.seed, hydra.launcher.workers) == ("MULTIRUN", "0,1", 2)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (doubling_yaml(40), "cannot be read (more than 20,000 values with its aliases written out)"),
        (doubling_references(40), "its references expand to over 1,000,000 values"),
        ("a: &a [*a]\n", "cannot be read (an alias stands for the value that it is part of)"),
        ("a: " + "[" * 3000, "cannot be read (nested more than 50 deep)"),
        ("a: " + "[" * 60 + "]" * 60, "cannot be read (nested more than 50 deep)"),
        ("a: x" * 100_000, "cannot be read (larger than 256 KiB, no configuration is)"),
        ("a: !!python/object/apply:os.system [true]\n", "could not determine a constructor"),
        ("x: ${.x}\n", "x: refers to itself"),
    ],
    ids=["aliases", "references", "own alias", "open brackets", "deep", "large", "python", "own reference"],
)
def test_file_that_would_not_be_read_in_a_lifetime_is_one_line(text, message, brought):
    with pytest.raises(Exception) as caught:  # noqa: PT011, Hydra wraps what its parser says
        brought("# @package _global_\n" + text)
    assert message in " ".join(str(caught.value).split())


def test_search_path_is_judged_before_it_is_searched(tmp_path):
    (tmp_path / "main.yaml").write_text("defaults: [train]\nhydra: {searchpath: ['pkg://this']}\n")
    found = forked("--config-path", str(CONFIGS), "--config-dir", str(tmp_path), "--config-name", "main")
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("Error: hydra.searchpath=['pkg://this']: no file can set it")


@pytest.mark.integration
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"allow_targets": ["pandas"], "monitor": {"x": {}}}, id="allows itself a package"),
        pytest.param({"hydra": {"callbacks": {"x": {}}}}, id="callback"),
        pytest.param(
            {
                "hydra": {
                    "mode": "MULTIRUN",
                    "sweeper": {"params": {"seed": "0,1", "allow_targets": "[pandas]"}},
                },
                "monitor": {"x": {}},
            },
            id="sweep that allows itself a package",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_nothing_of_a_strangers_folder_runs(asked, tmp_path):
    trap = write_trap(tmp_path / "trap.pkl", tmp_path / "sprung")
    load = f"{{_target_: pandas.read_pickle, filepath_or_buffer: {trap}}}"
    (tmp_path / "brought" / "experiment").mkdir(parents=True)
    text = yaml.safe_dump(asked).replace("{}", load)
    (tmp_path / "brought" / "experiment" / "nice.yaml").write_text(f"# @package _global_\n{text}")
    found = forked(
        "--config-dir", str(tmp_path / "brought"), "experiment=nice", f"outputs={tmp_path / 'outputs'}"
    )
    assert found.returncode == 2
    assert "no file can" in found.stderr
    assert len(found.stderr.splitlines()) == 1
    assert not (tmp_path / "sprung").exists()
    assert not (tmp_path / "outputs").exists()


def test_reference_to_a_search_path_is_judged_too(tmp_path):
    (tmp_path / "main.yaml").write_text("hydra: ${x}\nx: {searchpath: ['pkg://this']}\n")
    with pytest.raises(ValueError, match=r"pkg://this.*: no file can set it"):
        check_command_line(["--config-path", str(tmp_path), "--config-name", "main"])


def test_primary_file_beside_a_folder_that_hides_it_is_refused(tmp_path):
    """Two folders of strangers: Hydra would read a file of the first, and this check that of the second."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "second" / "main.yaml").write_text("x: 1\n")
    folders = ["--config-path", str(tmp_path / "first"), "--config-dir", str(tmp_path / "second")]
    with pytest.raises(ValueError, match=r"--config-name=main: is not in .*; name its folder"):
        check_command_line([*folders, "--config-name", "main"])


def test_files_that_hydra_does_not_read_are_left_alone(tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "large.yaml").write_text("a: x" * 100_000)
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "nice.yaml").write_text("# @package _global_\nlr: 0.5\n")
    check_command_line(["--config-dir", str(tmp_path), "experiment=nice", "seed=0,1"])
    check_command_line(["norm=none", "hydra.job.env_set={A: b}"])  # nothing of a stranger's
