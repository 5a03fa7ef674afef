"""Composing many cells quickly gives what Hydra composes one by one; presets are whole studies."""

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from hydra_plugins.normexp._cells import Cells, command_of, names, unpack
from hydra_plugins.normexp.sweeper import NormexpSweeper
from normexp import cli
from normexp.build import resolved
from normexp.config.folder import CONFIGS
from normexp.cores import cores
from normexp.sweeps.slots import slots


@pytest.fixture(scope="module")
def hydra():
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        yield GlobalHydra.instance().config_loader(), compose("train", return_hydra_config=True)


@pytest.mark.parametrize(
    "overrides",
    [
        ["norm=batchnorm", "batch_size=8", "seed=3"],
        ["optimizer=adam", "lr=0.3", "norm.correction=1", "accuracies=[0.5]", "name='a b'"],
        ["model=transformer", "optimizer=sgd", "max_epochs=2", "seed=1"],
        ["model=resnet", "recipe=plain", "lr=0.3"],
        ["experiment=depth", "model.depth=4", "data.train_size=null"],
    ],
)
def test_quick_composition_equals_hydras_own(hydra, overrides):
    loader, master = hydra
    cells = Cells(loader, master, [overrides])
    quick = cells.config(0)
    sent = unpack(cells.parcel(0), overrides)
    assert OmegaConf.to_container(sent) == OmegaConf.to_container(quick)
    slow = loader.load_sweep_config(master, overrides)
    wanted, found = OmegaConf.to_container(slow), OmegaConf.to_container(quick)
    for cell in (wanted, found):
        del cell["hydra"]["job"]["override_dirname"]  # unused, and deprecated in Hydra 1.4
    assert found == wanted


def test_unknown_key_gets_hydras_message(hydra):
    with pytest.raises(Exception, match=r"Could not override 'norm\.epss'"):
        Cells(*hydra, [["norm.epss=1"]])


@pytest.mark.parametrize("name", sorted(cli.choices("experiment")))
def test_preset_is_a_whole_study_of_valid_cells(hydra, name):
    preset = yaml.safe_load((CONFIGS / "experiment" / f"{name}.yaml").read_text())
    assert preset["hydra"]["mode"] == "MULTIRUN"
    assert preset["name"] == name
    loader, master = hydra
    parameters = [f"{key}={values}" for key, values in preset["hydra"]["sweeper"]["params"].items()]
    parsed = OverridesParser.create(config_loader=loader).parse_overrides([*parameters, f"experiment={name}"])
    (jobs,) = NormexpSweeper.split_arguments(parsed, None)
    assert len(jobs) >= 30
    cells = Cells(loader, master, jobs[:: len(jobs) // 5])
    configs = [resolved(cells.task(index)) for index in range(len(cells))]
    assert [cells.runs(index) for index in range(len(cells))] == [[config] for config in configs]
    assert all(config["name"] == name for config in configs)
    assert len({str(config) for config in configs}) == len(configs)


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
