"""The identity of a run: what changes it, what does not, and which folders are refused."""

import contextlib
import copy
import inspect
import json
from pathlib import Path

import fabricated
import pytest
from refusals import refused

from normexp.config.compose import compose, plain_values
from normexp.config.folder import CONFIGS
from normexp.config.identity import config_hash, default_folder, identity, processes_of
from normexp.config.options import choices
from normexp.config.run_spec import specs
from normexp.config.schema import NOT_IDENTITY
from normexp.config.targets import DataOfLaunch, resolve_target
from normexp.data import Digits
from normexp.training.build import build
from normexp.training.folder import check_folder

CONFIG = fabricated.config("layernorm", 64, 0, name="runs")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"}, {"outputs": "/elsewhere"}, {"monitor": {"gradients": {}}}, {"seed": 0.0},
        {"data": CONFIG["data"] | {"root": "/data"}}, {"trainer": CONFIG["trainer"] | {"accelerator": "gpu"}},
    ],
    ids=str,
)  # fmt: skip
def test_paths_hardware_and_monitors_are_not_identity(change):
    assert config_hash(CONFIG | change) == config_hash(CONFIG)


def test_hash_does_not_depend_on_the_order_of_keys():
    assert config_hash(dict(reversed(CONFIG.items()))) == config_hash(CONFIG)


def test_epochs_do_not_count_when_steps_are_given():
    with_steps = CONFIG | {"max_steps": 100}
    assert config_hash(with_steps | {"max_epochs": 7}) == config_hash(with_steps)


def test_default_folder_is_readable_and_ends_in_the_hash():
    folder = default_folder(CONFIG, {"model": "mlp", "norm": "layernorm"}, "0123456789")
    assert str(folder) == "outputs/runs/mlp/layernorm-bs64-s0-01234567"


def test_folder_of_another_run_is_refused(tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "identity").write_text("aaaa")
    check_folder(tmp_path, "aaaa")
    with refused("holds another run"):
        check_folder(tmp_path, "bbbb")


@pytest.mark.parametrize(
    ("trainer", "processes"),
    [
        ({"devices": 1}, 1),
        ({"devices": 2, "strategy": "ddp"}, 2),
        ({"devices": "2", "num_nodes": 3}, 6),
        ({"devices": [0, 2]}, 2),
        ({"_target_": "pytorch_lightning.Trainer", "_partial_": True}, 1),  # of the machine that tests
    ],
    ids=str,
)
def test_processes_that_share_a_batch_are_counted(trainer, processes):
    assert processes_of({**CONFIG, "trainer": trainer}) == processes
    assert processes_of({**CONFIG, "trainer": trainer, "max_steps": 0}) == 1


@pytest.mark.parametrize(("devices", "same"), [("2", False), ("auto", True)])
def test_a_run_over_two_processes_is_no_run_of_one(devices, same):
    """On CPUs the trainer resolves `auto` to one process."""
    words = ["trainer=ddp", "trainer.accelerator=cpu", "norm=batchnorm"]
    one, other = (specs([*words, f"trainer.devices={count}"])[0] for count in (1, devices))
    assert (one.digest == other.digest) == same
    assert (one.folder == other.folder) == same


def nodes_of(group: str) -> dict[str, dict]:
    """The nodes of all choices of a group that need nothing of the user's, resolved."""
    nodes = {}
    for path in sorted((CONFIGS / group).glob("*.yaml")):
        text = group == "data" and "text" in path.stem
        words = [f"{group}={path.stem}", *(["model=gpt"] if text else [])]
        with contextlib.suppress(ValueError):  # a path is missing
            nodes[path.stem] = plain_values(compose(words)[0])
    return nodes


@pytest.mark.parametrize("group", ["model", "norm", "data", "optimizer", "schedule"])
def test_a_value_at_its_default_is_no_part_of_the_identity_and_every_other_value_is(group):
    """So an option that a class gets tomorrow, with a default, voids no run of today."""
    for name, config in nodes_of(group).items():
        parameters = inspect.signature(resolve_target(group, config[group]["_target_"])).parameters
        for key in config[group].keys() & parameters.keys():
            if f"{group}.{key}" in NOT_IDENTITY:
                continue
            if (default := parameters[key].default) is inspect.Parameter.empty or key == "lr":
                continue
            at_default, without, other = (copy.deepcopy(config) for _ in range(3))
            at_default[group][key], other[group][key] = default, "another"
            del without[group][key]
            assert config_hash(at_default) == config_hash(without) != config_hash(other), (name, key)


@pytest.mark.parametrize(
    "change",
    ["seed=1", "lr=0.02", "batch_size=32", "eps=0.1", "max_epochs=3", "max_steps=5", "val_every_n_steps=7",
     "early_stopping=3", "label_smoothing=0.1", "model.width=32", "data.val_size=9", "norm=batchnorm", "data=mnist",
     "optimizer=sgd", "schedule=constant", "trainer.precision=bf16-mixed", "trainer.accumulate_grad_batches=2",
     "optimizer.decay=all", "flush_denormal=false"],
)  # fmt: skip
def test_every_setting_that_decides_numbers_counts(change):
    plain, other = (plain_values(compose(words)[0]) for words in ([], [change]))
    assert config_hash(plain) != config_hash(other)


HASHES = json.loads((Path(__file__).parent / "frozen" / "hashes.json").read_text())


def test_the_identity_of_every_choice_is_what_it_was():
    """A hash that moves, or hangs on what a process did before, would train finished runs again. None of these reads a
    file."""
    found = {words: specs(["trainer=cpu", *words.split()])[0].digest[:16] for words in HASHES}
    assert found == HASHES


class Counted(Digits):
    standard, loads = False, 0

    def load(self):
        type(self).loads += not self.splits
        super().load()
        self.fingerprint = "of its content"


def test_data_that_a_hash_has_read_are_handed_to_the_run(monkeypatch):
    monkeypatch.setattr("normexp.data.Counted", Counted, raising=False)
    monkeypatch.setattr(Counted, "__module__", "normexp.data")
    read = DataOfLaunch()
    words = ["model=mlp", "data=digits", "trainer=cpu", "data._target_=normexp.data.Counted"]
    first, second = specs(words, seeds=[0, 1], data=read)
    assert Counted.loads == 1
    assert identity(first.config, "of its content") != identity(first.config)
    assert read.take(second.config) is None  # its order of batches is another one
    (spec,) = specs(words, data=(read := DataOfLaunch()))
    data = read.take(spec.config)
    assert build(spec, data).data is data
    assert Counted.loads == 2
    assert read.take(spec.config) is None  # files may change


@pytest.mark.parametrize("name", sorted({*choices("data")} - {"module"}))
def test_standard_data_are_no_part_of_the_identity(name):
    target = resolve_target("data", plain_values(compose([f"data={name}"])[0])["data"]["_target_"])
    own = name in ("image_folder", "text_file", "python_docs", "cifar10_jpeg")
    assert target.standard != own
