"""The cells of a sweep: presets are whole studies, names say what differs, and each job gets its place."""

import pytest
import yaml
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from torch import nn

from hydra_plugins.normexp.launcher import NormexpSweeper
from normexp.config.compose import composer
from normexp.config.folder import CONFIGS
from normexp.config.options import choices
from normexp.config.run_spec import specs
from normexp.machine import cores
from normexp.norms import norm_named
from normexp.sweeps.grid import _attempt, _attempts, command_of, names
from normexp.sweeps.places.choose import slots


def jobs_of(name: str) -> tuple[dict, list[list[str]]]:
    """A preset and the words of each of its runs."""
    preset = yaml.safe_load((CONFIGS / "experiment" / f"{name}.yaml").read_text())
    parameters = [f"{key}={values}" for key, values in preset["hydra"]["sweeper"]["params"].items()]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        parser = OverridesParser.create(GlobalHydra.instance().config_loader())
        parsed = parser.parse_overrides([*parameters, f"experiment={name}"])
        (jobs,) = NormexpSweeper.split_arguments(parsed, None)
    return preset, jobs


@pytest.mark.integration
@pytest.mark.parametrize("name", sorted(choices("experiment")))
def test_preset_is_a_whole_study_of_valid_cells(name):
    preset, jobs = jobs_of(name)
    assert preset["hydra"]["mode"] == "MULTIRUN"
    assert preset["name"] == name
    assert len(jobs) >= 30
    using = composer()
    found = [spec for job in jobs[:: len(jobs) // 5] for spec in specs(job, using=using)]
    assert all(spec.config["name"] == name for spec in found)
    assert len({spec.folder for spec in found}) == len(found)


def test_the_zoo_has_every_norm_that_is_a_layer():
    norms = {word.removeprefix("norm=") for job in jobs_of("norm_zoo")[1] for word in job if "norm=" in word}
    assert norms == {path.stem for path in (CONFIGS / "norm").glob("*.yaml")} - {"original"}
    assert all(isinstance(norm_named(name)(8), nn.Module) for name in norms)


def test_names_say_what_differs():
    assert names([["a=1", "b=2", "c=0"], ["a=1", "b=3", "c=0"]]) == ["b=2", "b=3"]
    assert names([["a=1", "b=2"]]) == ["a=1 b=2"]


def test_command_of_a_cell_is_that_of_one_run():
    argv = ["train.py", "-m", "--config-dir", "mine", "norm=a,b", "experiment=depth", "seed=1"]
    overrides = ["norm=a", "experiment=depth", "seed=1"]
    assert command_of(argv, overrides) == [
        "train.py", "--config-dir", "mine", "norm=a", "experiment=depth", "seed=1", "hydra.mode=RUN",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("trainers", "workers", "per_gpu", "gpus", "wanted"),
    [
        ([{"devices": 1}], 0, 1, "", []),
        ([{"devices": 1}], 3, 1, "", [{}] * 3),
        ([{"devices": 1}], None, 1, "4,5", [{"CUDA_VISIBLE_DEVICES": "4"}, {"CUDA_VISIBLE_DEVICES": "5"}]),
        ([{"devices": 1}], None, 2, "4", [{"CUDA_VISIBLE_DEVICES": "4"}] * 2),
        ([{"devices": 2}], None, 1, "4,5", [{}]),
        ([{"devices": 1, "accelerator": "cpu"}], 2, 1, "4,5", [{}] * 2),
    ],
)
def test_each_job_gets_its_place(monkeypatch, trainers, workers, per_gpu, gpus, wanted):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    assert slots(trainers, workers, per_gpu) == wanted


def test_threads_and_workers_do_not_exceed_the_cores(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert len(slots([{"devices": 1}], None, 1)) == cores()
    assert len(slots([{"devices": cores()}], None, 1)) == 1


@pytest.mark.integration
@pytest.mark.parametrize("more", [[], ["model.width=${seed}"], ["batch_size=0"]])
def test_cells_that_differ_in_the_seed_alone_are_what_each_is_by_itself(more):
    cells = [[f"norm={norm}", f"seed={seed}", *more] for seed in (3, 1, 2) for norm in ("none", "layernorm")]
    together = _attempts(cells, composer())
    for cell, found in zip(cells, together, strict=True):
        alone = _attempt(cell, composer())
        if isinstance(alone, ValueError):
            assert str(found) == str(alone)
        else:
            assert found == alone
            assert [one.files()["config.yaml"] for one in found] == [
                one.files()["config.yaml"] for one in alone
            ]
            assert found[0].overrides[:2] == tuple(cell[:2])
