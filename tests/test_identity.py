"""The identity of a run: what changes it, what does not, and which folders are refused."""

import copy

import pytest

from normexp.config.identity import check_folder, config_hash, default_folder, identity, processes_of
from normexp.config.run_spec import specs

CONFIG = {
    "seed": 0,
    "batch_size": 64,
    "lr": 0.1,
    "max_epochs": 2,
    "max_steps": None,
    "name": "runs",
    "outputs": "outputs",
    "monitor": {"gradients": {"every_n_steps": 10}},
    "model": {"_target_": "normexp.models.MLP", "depth": 3},
    "data": {"_target_": "normexp.data.MNIST", "root": "data", "val_size": 5000},
    "trainer": {"precision": "32-true", "accelerator": "auto", "devices": 1},
}


def changed(path: str, value) -> dict:
    config = copy.deepcopy(CONFIG)
    *parents, last = path.split(".")
    node = config
    for key in parents:
        node = node[key]
    node[last] = value
    return config


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "other"),
        ("outputs", "/elsewhere"),
        ("monitor", {}),
        ("data.root", "/data"),
        ("trainer.accelerator", "gpu"),
        ("seed", 0.0),
    ],
)
def test_paths_hardware_and_monitors_are_not_identity(path, value):
    assert config_hash(changed(path, value)) == config_hash(CONFIG)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seed", 1),
        ("batch_size", 32),
        ("lr", 0.2),
        ("max_epochs", 3),
        ("model.depth", 4),
        ("data.val_size", 10),
        ("trainer.precision", "bf16-mixed"),
    ],
)
def test_what_changes_the_result_is_identity(path, value):
    assert config_hash(changed(path, value)) != config_hash(CONFIG)


def test_hash_does_not_depend_on_the_order_of_keys():
    assert config_hash(dict(reversed(CONFIG.items()))) == config_hash(CONFIG)


def test_content_of_the_users_data_is_identity():
    assert config_hash(CONFIG, "abc") != config_hash(CONFIG, "abd")


def test_epochs_do_not_count_when_steps_are_given():
    with_steps = changed("max_steps", 100)
    assert config_hash(with_steps | {"max_epochs": 7}) == config_hash(with_steps)


def test_default_folder_is_readable_and_ends_in_the_hash():
    folder = default_folder(CONFIG, {"model": "mlp", "norm": "layernorm"}, "0123456789")
    assert str(folder) == "outputs/runs/mlp/layernorm-bs64-s0-01234567"


def test_folder_of_another_run_is_refused(tmp_path):
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "identity").write_text("aaaa")
    check_folder(tmp_path, "aaaa")
    with pytest.raises(ValueError, match="holds another run"):
        check_folder(tmp_path, "bbbb")


def test_folder_with_foreign_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="no run of normexp"):
        check_folder(tmp_path, "aaaa")


def test_file_in_place_of_a_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        check_folder(tmp_path / "file", "aaaa")


@pytest.mark.parametrize(
    ("trainer", "processes"),
    [
        ({"devices": 1}, 1),
        ({"devices": 2, "strategy": "ddp"}, 2),
        ({"devices": "2", "num_nodes": 3}, 6),
        ({"devices": [0, 2]}, 2),
        ({"devices": "auto"}, None),
        ({"devices": -1}, None),
        ({}, None),
    ],
    ids=str,
)
def test_processes_that_share_a_batch_are_counted(trainer, processes):
    assert processes_of({**CONFIG, "trainer": trainer}) == processes
    assert processes_of({**CONFIG, "trainer": trainer, "max_steps": 0}) == 1


def test_processes_that_share_a_batch_are_identity_and_one_is_as_before():
    assert config_hash(CONFIG, processes=1) == config_hash(CONFIG)
    assert config_hash(CONFIG, processes=2) != config_hash(CONFIG)
    assert identity(CONFIG, processes=2) == identity(CONFIG) | {"processes": 2}


@pytest.mark.parametrize(("devices", "same"), [("2", False), ("auto", True)])
def test_a_run_over_two_processes_is_no_run_of_one(devices, same):
    """On CPUs the trainer resolves `auto` to one process."""
    one, other = (
        specs(["trainer=ddp", "trainer.accelerator=cpu", "norm=batchnorm", f"trainer.devices={count}"])[0]
        for count in (1, devices)
    )
    assert (one.digest == other.digest) == same
    assert (one.folder == other.folder) == same
