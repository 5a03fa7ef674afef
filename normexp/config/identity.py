"""The identity of a run: the hash of its configuration, its folder, and whether that folder may be used; and what of
the run is as shipped: the choices of its nodes, and its recipe, how its model is trained by default."""

import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from normexp.config.folder import CONFIGS, load_yaml
from normexp.config.settings import GROUPS, NOT_IDENTITY, value_at

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
_OF_IMAGES = {"tasks": None, "task_batches": 500, "border": "black", "tta": "none"}
LATER_OPTIONS: dict[str, dict[str, Any]] = {
    "normexp.models.CNN": {"pool": "between", "whiten": False},
    "normexp.models.Transformer": _BLOCK,
    "normexp.models.GPT": {
        **_BLOCK, "position": "learned", "rope_base": 10_000.0, "qk_norm_place": "before", "tied_embedding": False,
        "embedding_scale": "none", "ngrams": 1, "ngram_rows": 32_768,
    },
    "normexp.optimizers.Muon": {"precision": "bfloat16"},
    "normexp.norms.RMSNorm": {"gain": "vector", "rounding": "after_gain"},
    "normexp.norms.Pointwise": {"alpha_attention": None, "alpha_final": None},
    **{f"torch.optim.{name}": {"decay": "matrices"} for name in _TORCHS},
    **{f"normexp.data.{name}": _OF_IMAGES for name in _IMAGES},
}  # fmt: skip


LATER_KEYS = {"early_stopping": None, "label_smoothing": 0}


def identity(config: dict[str, Any], fingerprint: str = "", processes: int = 1) -> dict[str, Any]:
    """The part of a resolved configuration that makes two runs the same run.

    Paths, hardware and monitors are omitted. A user's own data counts by `fingerprint`, the hash of its content, and
    several processes by their number: each normalizes and augments its own part of a batch.
    When a later version adds a key, it must omit the key's default value here, so that old runs stay valid; options of
    a group stand in LATER_OPTIONS.
    """
    # max_steps decides, max_epochs is ignored; the others are later keys at the values of runs from before them
    omitted = [key for key, value in LATER_KEYS.items() if config.get(key, value) == value]
    omitted += ["max_epochs"] if config.get("max_steps") is not None else []
    kept = {key: value for key, value in _identity_of(config).items() if key not in omitted}
    return {**kept, "fingerprint": fingerprint, **({"processes": processes} if processes > 1 else {})}


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


def model_label(config: Mapping[str, Any], choices: Mapping[str, str]) -> str:
    """The model of a run; see `network_label`."""
    return network_label(choices["model"], config["model"].get("name"), config["model"].get("path"))


def network_label(model: str, name: str | None, path: str | None) -> str:
    """The chosen model, with the network of a library or of a user, which a folder does not name: `torchvision
    resnet18`, `module my_package.Net`."""
    which = name or path
    return f"{model} {which}" if which else model


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


OLDER = "older"  # recipe of a run that is older than recipes
CHOSEN = ("optimizer", "schedule")  # groups that a recipe chooses from
VALUES = ("lr", "batch_size", "max_epochs", "max_steps")
OF_TRAINER = ("gradient_clip_val", "accumulate_grad_batches")


def changes(config: dict[str, Any], choices: dict[str, str]) -> list[str] | None:
    """What a run changed in its recipe, as overrides: `["optimizer=sgd", "max_epochs=3"]`.

    The learning rate belongs to the optimizer: another optimizer at its own rate is one change. None if the recipe is
    not this project's, or if the run is older than recipes.
    """
    recipe = shipped("recipe", config.get("recipe"))
    if recipe is None:
        return None
    pair = f"{config['recipe']}_{choices['model']}_{choices['data']}"
    fast = shipped("recipe", "fast", pair) or {}
    fast = fast | (shipped("recipe", "fast", "optimizer", f"{pair}_{choices['optimizer']}") or {})
    recipe = recipe | fast
    train = shipped("train") or {}
    chosen = _chosen(train) | _chosen(recipe)
    own = {group: shipped(group, choices[group]) or config for group in CHOSEN}
    rate = shipped("recipe", "rate", f"{config['recipe']}_{choices['optimizer']}") or own["optimizer"]
    root = train | {"lr": rate.get("lr")} | recipe
    trainer = shipped("trainer", "auto") | recipe.get("trainer", {})
    nodes = {"optimizer": own["optimizer"].get("optimizer", {}), "schedule": own["schedule"]}
    asked = {key: root[key] for key in VALUES}
    asked |= {f"trainer.{key}": trainer.get(key) for key in OF_TRAINER}
    for group, node in nodes.items():
        options = {key: value for key, value in node.items() if not key.startswith("_")}
        asked |= {f"{group}.{key}": value for key, value in options.items() if key in config[group]}
    for group, value in fast.items():  # it sets the network and the data, too
        of_group = isinstance(value, dict)
        asked |= {f"{group}.{key}": one for key, one in value.items()} if of_group else {group: value}
    if config["max_steps"] is not None:
        del asked["max_epochs"]  # it is ignored
    changed = [f"{group}={choices[group]}" for group in CHOSEN if choices[group] != chosen[group]]
    for key, value in asked.items():
        if "${" not in str(value) and (now := value_at(config, key)) != value:
            changed.append(f"{key}={'null' if now is None else now}")
    if (rate_given := config["optimizer"].get("lr", config["lr"])) != config["lr"]:  # then lr moves nothing
        changed = [word for word in changed if not word.startswith("lr=")] + [f"optimizer.lr={rate_given}"]
    return changed


def choice_of(group: str, node: dict[str, Any]) -> str:
    """Recover the name of a node's choice where Hydra does not keep it. For a list, monitor=[light,hessian],
    the names of its members. For the saved configuration of a run, the file with these values."""
    if "_target_" not in node:
        return "+".join(node) or "none"
    node = with_later_options(node)
    for path in sorted((CONFIGS / group).glob("*.yaml")):
        file = shipped(group, path.stem) or {}
        written = with_later_options({key: value for key, value in file.items() if key != "defaults"})
        same = (value == node.get(key) or "${" in str(value) for key, value in written.items())
        if written.keys() == node.keys() and all(same):
            return path.stem
    return "own"


def choices_of(config: dict[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """The choice of each group in a configuration, and its recipe. `known` is what Hydra keeps of them: nothing for a
    file that was saved whole."""
    found = {group: known.get(group) or choice_of(group, config[group]) for group in GROUPS}
    return {**found, "recipe": config["recipe"]}


def own_recipe(model: str) -> str | None:
    """The recipe with the model's name; None if there is none."""
    return model if shipped("recipe", model) is not None else None


def older(summary: dict[str, Any]) -> str | None:
    """One line on a finished run whose recipe has changed since; None if it has not."""
    name = summary["config"].get("recipe")
    if name is None:
        return "trained before models had recipes; what it left to the defaults is recipe=plain today"
    now, then = changes(summary["config"], summary["choices"]), summary.get("recipe_changes")
    if now is None or then is None or now == then:
        return None
    return f"trained by an older recipe={name}, which differs from today's in {', '.join(sorted({*now} ^ {*then}))}"


def _chosen(node: dict[str, Any]) -> dict[str, str]:
    """The choices of a defaults list, with its overrides."""
    items = [item for item in node.get("defaults", []) if isinstance(item, dict)]
    named = {
        re.sub(r"^(override|optional) +/?", "", key): value for item in items for key, value in item.items()
    }
    return {group: named[group] for group in CHOSEN if group in named}


@cache
def shipped(*place: str | None) -> dict[str, Any] | None:
    """A file of the configuration; None if there is none. Callers share the content and must not change it."""
    names = [name for name in place if isinstance(name, str) and re.fullmatch(r"\w+", name)]
    if len(names) < len(place):
        return None  # the name may come from a stranger's run
    path = CONFIGS.joinpath(*names).with_suffix(".yaml")
    return (load_yaml(path.read_text()) or {}) if path.is_file() else None
