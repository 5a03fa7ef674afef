"""A run as a plain value, the runs that overrides ask for, and the run of a folder."""

import json
import pickle
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from normexp.config.checks import validate
from normexp.config.compose import (
    Composer,
    check_interpolations,
    compose,
    composer,
    hydra_files,
    plain_values,
)
from normexp.config.construct import construct, fingerprint
from normexp.config.folder import allowed_packages, parse_yaml, read_text
from normexp.config.identity import config_hash, default_folder, processes_of
from normexp.config.recipe import OLDER, choices_of
from normexp.config.settings import ROOT, check_setting

FREE = {setting.key: setting for setting in ROOT if setting.key in ("seed", "lr")}
ROOT_REFERENCE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True)
class RunSpec:
    """One run as a plain, picklable value. Runs share their nodes; do not change them.

    Attributes:
        config: resolved and validated, in plain types.
        choices: group -> chosen name.
        digest: hash of the run's identity.
        folder: of the run; it may not exist yet.
        overrides: what a user types for this run alone.
        allowed: the user's packages that `_target_` may name; None for those of the command line.
    """

    config: dict[str, Any]
    choices: dict[str, str]
    digest: str
    folder: Path
    overrides: tuple[str, ...] = ()
    allowed: tuple[str, ...] | None = None
    composed: bytes = field(default=b"", repr=False, compare=False)  # pickled, with Hydra's own node

    def files(self) -> dict[str, str]:
        """The texts of the files in `.hydra/`: references stay references, `${lr}`, for who composes it again."""
        cfg: DictConfig = pickle.loads(self.composed)
        for key in ("seed", "lr", "threads"):
            if self.config[key] != cfg[key]:
                OmegaConf.update(cfg, key, self.config[key], merge=False, force_add=True)
        return hydra_files(cfg, self.overrides)


def specs(
    overrides: Iterable[str],
    *,
    seeds: Sequence[int] | None = None,
    rates: Sequence[float] | None = None,
    allowed: Iterable[str] | None = None,
    using: Composer | None = None,
) -> list[RunSpec]:
    """The runs that overrides ask for: one, or the product of `rates` and `seeds`.

    Args:
        overrides: as on the command line of `train`.
        seeds, rates: one run for each pair, with the rates outside. By default those of the configuration.
        allowed: the user's packages that `_target_` may name; by default those of the command line.
        using: composes the configurations of a launch, and knows the data that it has read; by default one of this
            project's files and the user's own folder.

    Raises ValueError with one line for a configuration that cannot be a run. Hydra's errors are its own.
    """
    words = tuple(overrides)
    using = using or composer()
    cfg, known = using.compose(words), using.fingerprints
    return list(runs_of(cfg, words, seeds=seeds, rates=rates, allowed=allowed, known=known))


def runs_of(
    cfg: DictConfig,
    overrides: Sequence[str],
    *,
    choices: dict[str, str] | None = None,
    seeds: Sequence[int] | None = None,
    rates: Sequence[float] | None = None,
    allowed: Iterable[str] | None = None,
    known: dict[str, str] | None = None,
) -> Iterator[RunSpec]:
    """The runs of a composed configuration; see `specs`. `choices` are needed where it has no node `hydra`; `known` as
    in `fingerprint`."""
    packages = None if allowed is None else tuple(allowed)
    pickled = _pickled(cfg)
    found = choices if choices is not None else dict(cfg.hydra.runtime.choices)
    task = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    first = resolved(task, packages)
    asked = _asked(first, seeds, rates)
    if first["run_dir"] and len(asked) > 1:
        raise ValueError(f"run_dir={first['run_dir']}: each run has a folder of its own; leave it out")
    chosen = choices_of(first, found)
    configs = list(_each_config(task, first, asked, packages))
    known = {} if known is None else known
    processes = processes_of(first) or processes_of_trainer(first, packages)
    digests = [
        config_hash(config, fingerprint(config, packages, known), processes, packages) for config in configs
    ]
    for config, digest in zip(configs, digests, strict=True):
        folder = Path(config["run_dir"] or default_folder(config, chosen, digest))
        several = len(asked) > 1
        own = [f"seed={config['seed']}"] if several or seeds is not None else []
        own += [f"lr={config['lr']}"] if several or rates is not None else []
        yield RunSpec(
            config=config,
            choices=chosen,
            digest=digest,
            folder=folder,
            overrides=(*overrides, *own),
            allowed=packages,
            composed=pickled,
        )


def processes_of_trainer(config: dict[str, Any], allowed: Iterable[str] | None) -> int:
    """The number of processes to which the trainer resolves `devices: auto` on this machine."""
    try:
        make_trainer = construct("trainer", config["trainer"], allowed)
        trainer = make_trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False)
    except Exception:  # of a dozen types; the same error ends the run in one line when its trainer is checked
        return 1
    return trainer.world_size


def resolved(cfg: DictConfig, allowed: Iterable[str] | None = None) -> dict[str, Any]:
    """A configuration as plain, validated values. Raises ValueError with one line for the first mistake."""
    config = plain_values(cfg)
    validate(config, allowed)
    return config


def _asked(
    config: dict[str, Any], seeds: Sequence[int] | None, rates: Sequence[float] | None
) -> list[tuple[int, float | None]]:
    """(seed, learning rate) of each run; None for the configuration's own rate."""
    own = [config["seed"]] if seeds is None else seeds
    return [(seed, rate) for rate in (rates or (None,)) for seed in own]


def _pickled(cfg: DictConfig) -> bytes:
    """The configuration, without types where they cannot be pickled: in a job of a launcher of Hydra's, its search for
    plugins imports the class of the launcher's options a second time."""
    try:
        return pickle.dumps(cfg)
    except pickle.PicklingError:
        return pickle.dumps(OmegaConf.create(OmegaConf.to_container(cfg, resolve=False)))


def _each_config(
    task: DictConfig, first: dict[str, Any], asked: Sequence[tuple[int, float | None]], allowed: Any
) -> Iterator[dict[str, Any]]:
    """The configuration at each seed and rate. OmegaConf takes ten milliseconds to resolve one, so they are derived
    from the first where each reference is a value of the root as it stands."""
    written: Any = OmegaConf.to_container(task, resolve=False) if len(asked) > 1 else None
    if len({rate for _, rate in asked}) > 1 and isinstance(
        own := written["optimizer"].get("lr"), int | float
    ):
        raise ValueError(
            f"optimizer.lr={own}: is the rate of each run, so other values of lr move nothing; leave it out"
        )
    derived = written and all(_is_root_value(written, text) for text in _texts(written) if "${" in text)
    for seed, rate in asked:
        values = {"seed": seed} | ({} if rate is None else {"lr": rate})
        if all(first[key] == value for key, value in values.items()):
            yield first
        elif derived:
            for key, value in values.items():
                check_setting(FREE[key], value)
            referred = {f"${{{key}}}": value for key, value in values.items()}
            yield _filled(written, first, referred) | values
        else:
            alone = pickle.loads(pickle.dumps(task))
            for key, value in values.items():
                alone[key] = value
            yield resolved(alone, allowed)


def _texts(node: Any) -> Iterator[str]:
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from [item] if isinstance(item, str) else _texts(item)


def _is_root_value(written: dict[str, Any], text: str) -> bool:
    """Whether a text is a reference such as `${lr}`, to a value at the root that refers to nothing itself."""
    named = ROOT_REFERENCE.fullmatch(text)
    value = written.get(named[1], {}) if named else {}
    return not isinstance(value, (dict, list)) and "${" not in str(value)


def _filled(written: Any, node: Any, values: dict[str, Any]) -> Any:
    """A copy of a resolved node, with other values where it was written with references to them."""
    if isinstance(node, dict):
        return {key: _filled(written[key], item, values) for key, item in node.items()}
    if isinstance(node, list):
        return [_filled(*pair, values) for pair in zip(written, node, strict=True)]
    return values.get(written, node) if isinstance(written, str) else node


def kind_of(spec: RunSpec) -> str:
    """A text that is equal for runs that build alike and whose steps take equally long: all values but seed and rate,
    and those of data and optimizer if they follow."""
    config = spec.config
    kept = {**config, "seed": None, "lr": None}
    for group, key in (("data", "seed"), ("optimizer", "lr")):
        if config[group].get(key) == config[key]:
            kept[group] = {**config[group], key: None}
    return json.dumps(kept, default=str)


def saved_spec(run: Path, summary: dict[str, Any], overrides: list[str]) -> RunSpec:
    """The run of a folder as it would be computed again, with overrides applied. Only the command line allows a user's
    packages, never the file.

    Raises ValueError with one line for files that cannot be read and for overrides that name no key.
    """
    saved = run / ".hydra" / "config.yaml"
    if not saved.exists() and "config" not in summary:
        raise ValueError(f"{saved}: not found; name the folder of a run that was trained")
    try:
        # Old runs in the cache of claims lack the file, but every finished run recorded its content.
        cfg = _safe(saved) if saved.exists() else _safe(run / "summary.json", summary["config"])
        choices = summary.get("choices") or _choices(saved.with_name("hydra.yaml"))
    except ValueError as error:
        raise ValueError(f"{error}; train the run again") from None
    for key, default in compose([])[0].items_ex(resolve=False):
        if key not in cfg:  # the run is older than this key
            cfg[key] = OLDER if key == "recipe" else default
    cfg.logger = []  # the run may have logged with a package that is not installed here
    cfg.pop("replicas", None)  # a key of earlier versions
    for override in overrides:
        _set(cfg, override, saved)
    cfg.allow_targets = list(allowed_packages())
    (spec,) = runs_of(cfg, overrides, choices=dict(choices))
    return spec


def _safe(path: Path, content: Any = None) -> DictConfig:
    """A saved configuration, perhaps a stranger's. Raises ValueError with one line if it cannot be read."""
    if content is None:
        content = parse_yaml(read_text(path), path, load=str)
    try:
        cfg = OmegaConf.create(content)
        if not isinstance(cfg, DictConfig):
            raise ValueError("holds no keys with values")
    except Exception as error:  # OmegaConf and the parser raise a dozen types
        raise ValueError(f"{path}: cannot be read ({' '.join(str(error).split())})") from None
    check_interpolations(cfg)
    return cfg


def _choices(path: Path) -> dict[str, str]:
    choices = OmegaConf.select(_safe(path), "hydra.runtime.choices")
    if not isinstance(choices, DictConfig):
        raise ValueError(f"{path}: names no choices")
    return {str(group): str(choice) for group, choice in choices.items()}


def _set(cfg: DictConfig, override: str, saved: Path) -> None:
    key, equals, value = override.removeprefix("+").partition("=")
    # The default `cfg` means that there is no such key; None is a valid value.
    known = OmegaConf.select(cfg, key, default=cfg) is not cfg
    if not equals or not key or not (known or override.startswith("+")):
        raise ValueError(f"{override}: no such key; write key=value with a key of {saved}, or +key=value")
    try:
        OmegaConf.update(cfg, key, OmegaConf.from_dotlist([f"value={value}"]).value)
    except YAMLError:
        raise ValueError(f"{override}: is no value; close its brackets and quotes") from None
