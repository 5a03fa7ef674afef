"""The cells of a sweep: presets are whole studies, names say what differs, and each job gets its place."""

import pytest
import yaml
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from refusals import refused
from torch import nn

from hydra_plugins.normexp.launcher import NormexpSweeper
from normexp.config.folder import CONFIGS
from normexp.config.options import choices
from normexp.config.run_spec import specs
from normexp.norms import norm_named
from normexp.sweeps import places
from normexp.sweeps.grid import names, plan
from normexp.sweeps.options import Options
from normexp.sweeps.places import slots


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
    found = [specs(words)[0] for words in jobs[:: len(jobs) // 5]]
    assert all(spec.config["name"] == name for spec in found)
    assert len({spec.folder for spec in found}) == len(found)


def test_the_zoo_has_every_norm_that_is_a_layer():
    norms = {word.removeprefix("norm=") for job in jobs_of("norm_zoo")[1] for word in job if "norm=" in word}
    assert norms == {path.stem for path in (CONFIGS / "norm").glob("*.yaml")} - {"original"}
    assert all(isinstance(norm_named(name)(8), nn.Module) for name in norms)


def test_names_say_what_differs():
    assert names([["a=1", "b=2", "c=0"], ["a=1", "b=3", "c=0"]]) == ["b=2", "b=3"]
    assert names([["a=1", "b=2"]]) == ["a=1 b=2"]
    with refused("an axis of the sweep has no value"):
        names([])


@pytest.mark.parametrize(
    ("trainers", "workers", "per_gpu", "gpus", "wanted"),
    [
        ([{"devices": 1}], 3, 1, "", [{}] * 3),
        ([{"devices": 1}], None, 1, "4,5", [{"CUDA_VISIBLE_DEVICES": "4"}, {"CUDA_VISIBLE_DEVICES": "5"}]),
        ([{"devices": 1}], None, 2, "4", [{"CUDA_VISIBLE_DEVICES": "4"}] * 2),
        ([{"devices": 2}], None, 1, "4,5", [{}]),
        ([{"devices": 1, "accelerator": "cpu"}], 2, 1, "4,5", [{}] * 2),
    ],
)
def test_each_job_gets_its_place(monkeypatch, trainers, workers, per_gpu, gpus, wanted):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    assert slots(trainers, Options(workers=workers, runs_per_gpu=per_gpu), 1) == wanted


def test_cores_are_shared_among_runs_of_several_threads(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(places, "cores", lambda: 8)
    assert len(slots([{"devices": 1}], Options(), 1)) == 8
    assert len(slots([{"devices": 1}], Options(), 4)) == 2
    assert len(slots([{"devices": 4}], Options(), 1)) == 1


def test_a_cell_that_cannot_run_is_named(tmp_path):
    shared = ["model.width=9", f"outputs={tmp_path}", "model.depth=1", "trainer=cpu"]
    cells = [[f"norm={norm}", f"seed={seed}", *shared] for norm in ("none", "groupnorm") for seed in (0, 1)]
    with refused(r"groups.* \[cell norm=groupnorm seed=0\]$"):
        plan(names(cells), cells)
