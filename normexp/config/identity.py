"""The identity of a run: the hash of its configuration, its folder, and whether that folder may be used."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normexp.config.settings import NOT_IDENTITY

# A run's folder holds this from its first moment.
LOCK, HYDRA, HYDRA_BEING_WRITTEN = ".lock", ".hydra", ".hydra.new"
HYDRA_FILES = {"config.yaml", "hydra.yaml", "overrides.yaml", "identity"}

# Options that a class got after its first runs, each with the value under which it computes what it computed before. At
# that value an option is no part of a run's identity, so old runs stay valid. A run from before there was the option
# reads as a run with that value. Add here each new option of a class in a config group.
_BLOCK = {
    "bias": True, "embedding_norm": False, "final_norm": None, "depth_scaling": False, "qk_norm_over": "head",
    "qk_norm_gain": True, "v_norm": "none", "attention_scale": 1.0, "attention_sink": False, "attention_gate": "none",
}  # fmt: skip
_TORCHS = (
    "SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "ASGD", "Rprop",
)  # fmt: skip
_IMAGES = (
    "MNIST", "FashionMNIST", "KMNIST", "CIFAR10", "CIFAR100", "CIFAR10JPEG", "Digits", "ImageFolder",
)  # fmt: skip
LATER_OPTIONS: dict[str, dict[str, Any]] = {
    "normexp.models.CNN": {"pool": "between", "whiten": False},
    "normexp.models.Transformer": _BLOCK,
    "normexp.models.GPT": {
        **_BLOCK, "position": "learned", "rope_base": 10_000.0, "qk_norm_place": "before", "tied_embedding": False,
        "embedding_scale": "none",
    },
    "normexp.norms.RMSNorm": {"gain": "vector", "rounding": "after_gain"},
    "normexp.norms.Pointwise": {"alpha_attention": None, "alpha_final": None},
    **{f"torch.optim.{name}": {"decay": "matrices"} for name in _TORCHS},
    **{f"normexp.data.{name}": {"tasks": None, "task_batches": 500} for name in _IMAGES},
}  # fmt: skip


def identity(config: dict[str, Any], fingerprint: str = "", processes: int = 1) -> dict[str, Any]:
    """The part of a resolved configuration that makes two runs the same run.

    Paths, hardware and monitors are omitted. A user's own data counts by `fingerprint`, the hash of its content, and
    several processes by their number: each normalizes and augments its own part of a batch.
    When a later version adds a key, it must omit the key's default value here, so that old runs stay valid; options of
    a group stand in LATER_OPTIONS.
    """
    kept = _identity_of(config)
    if kept.get("max_steps") is not None:
        kept.pop("max_epochs", None)  # max_steps decides, max_epochs is ignored
    if kept.get("early_stopping") is None:
        kept.pop("early_stopping", None)  # runs from before there was the key
    if not kept.get("label_smoothing"):
        kept.pop("label_smoothing", None)  # the same
    kept["fingerprint"] = fingerprint
    if processes > 1:
        kept["processes"] = processes
    return kept


def processes_of(config: dict[str, Any]) -> int | None:
    """The number of processes that share a batch: one for each device of each node; one for a run of no step. None
    where only the trainer can tell, for `devices: auto`."""
    if config.get("max_steps") == 0:
        return 1
    trainer = config.get("trainer") or {}
    devices, nodes = trainer.get("devices", "auto"), trainer.get("num_nodes", 1)
    if isinstance(devices, str) and devices.isdigit():
        devices = int(devices)
    if isinstance(devices, list):
        return len(devices) * nodes
    return devices * nodes if isinstance(devices, int) and devices > 0 else None


def _identity_of(node: dict[str, Any], path: str = "") -> dict[str, Any]:
    kept = {}
    for key, value in node.items():
        if f"{path}{key}" not in NOT_IDENTITY:
            deeper = not path and isinstance(value, dict)  # a setting has at most one dot
            kept[key] = _identity_of(without_later_options(value), f"{key}.") if deeper else value
    return kept


def without_later_options(node: Mapping[str, Any]) -> dict[str, Any]:
    """A group's node without those later options that have their old value."""
    old = LATER_OPTIONS.get(str(node.get("_target_")), {})
    return {key: value for key, value in node.items() if key not in old or value != old[key]}


def with_later_options(node: Mapping[str, Any]) -> dict[str, Any]:
    """A group's node with the later options that it lacks, at their old values."""
    return {**LATER_OPTIONS.get(str(node.get("_target_")), {}), **node}


def config_hash(config: dict[str, Any], fingerprint: str = "", processes: int = 1) -> str:
    """Hexadecimal SHA-256 of the identity, equal for 1 and 1.0 and for any order of keys."""
    text = json.dumps(_plain(identity(config, fingerprint, processes)), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def default_folder(config: dict[str, Any], choices: dict[str, str], digest: str) -> Path:
    """`<outputs>/<name>/<model>/<norm>-bs<N>-s<seed>-<hash8>`"""
    leaf = f"{choices['norm']}-bs{config['batch_size']}-s{config['seed']}-{digest[:8]}"
    return Path(config["outputs"]) / config["name"] / choices["model"] / leaf


def saved_identity(folder: Path) -> str | None:
    """The hash that a run folder was made for, or None if it is not a run folder."""
    path = folder / HYDRA / "identity"
    return path.read_text(errors="replace").strip() or None if path.exists() else None


def check_folder(folder: Path, digest: str) -> None:
    """Refuse a folder that holds another run or other files."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"run_dir={folder}: is a file; name a folder")
    found = saved_identity(folder)
    if found is None and not _barely_begun(folder):
        raise ValueError(
            f"run_dir={folder}: holds files that are no run of normexp; choose an empty or a new folder"
        )
    if found is not None and found != digest:
        raise ValueError(
            f"run_dir={folder}: holds another run (hash {found[:8]}, this one is {digest[:8]}); choose another folder"
        )


def _barely_begun(folder: Path) -> bool:
    """Whether a folder without identity holds only what a process leaves that was killed at its start."""
    if {entry.name for entry in folder.iterdir()} - {LOCK, HYDRA, HYDRA_BEING_WRITTEN}:
        return False
    hydra = folder / HYDRA
    return not hydra.exists() or {entry.name for entry in hydra.iterdir()} <= HYDRA_FILES
