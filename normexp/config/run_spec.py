"""A run as a plain value, and the runs that overrides ask for."""

import json
import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from normexp.config.checks import check_setting, validate
from normexp.config.compatibility import choice_of
from normexp.config.compose import Composer, composer, hydra_files, plain_values
from normexp.config.construct import construct, fingerprint
from normexp.config.identity import config_hash, default_folder, processes_of
from normexp.config.settings import GROUPS, ROOT

FREE = {setting.key: setting for setting in ROOT if setting.key in ("seed", "lr")}
Place = tuple[str | int, ...]  # the way to a value in nested mappings and lists


@dataclass(frozen=True)
class RunSpec:
    """One run as a plain, picklable value. Runs share their nodes; do not change them.

    Attributes:
        config: resolved and validated, in plain types.
        choices: group -> chosen name.
        digest: hash of the run's identity.
        folder: of the run; it may not exist yet.
        overrides: what a user types for this run alone.
        together: runs with the same text train side by side in one process (replicas); empty for a run alone.
        allowed: the user's packages that `_target_` may name; None for those of the command line.
    """

    config: dict[str, Any]
    choices: dict[str, str]
    digest: str
    folder: Path
    overrides: tuple[str, ...] = ()
    together: str = ""
    allowed: tuple[str, ...] | None = None
    composed: bytes = field(default=b"", repr=False, compare=False)  # pickled, with Hydra's own node

    def files(self) -> dict[str, str]:
        """The texts of the files in `.hydra/`: references stay references, `${lr}`, for who composes it again."""
        cfg: DictConfig = pickle.loads(self.composed)
        for key in ("seed", "lr", "replicas", "threads"):
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
    """The runs that overrides ask for: one, one for each replica, or the product of `rates` and `seeds`.

    Args:
        overrides: as on the command line of `train`.
        seeds, rates: one run for each pair, with the rates outside. By default those of the configuration.
        allowed: the user's packages that `_target_` may name; by default those of the command line.
        using: composes the configurations of a launch, and knows the data that it has read; by default one of this
            project's files and the user's own folder.

    Raises ValueError with one line for a configuration that cannot be a run. Hydra's errors are its own.
    """
    words = tuple(overrides)
    cfg = (using or composer()).compose(words)
    known = using.fingerprints if using else None
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
    pickled = pickle.dumps(cfg)
    found = choices if choices is not None else dict(cfg.hydra.runtime.choices)
    task = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    first = resolved(task, packages)
    asked = _asked(first, seeds, rates)
    replicas = seeds is None and rates is None and first["replicas"] != ALONE
    if first["run_dir"] and len(asked) > 1:
        raise ValueError(f"run_dir={first['run_dir']}: replicas have a folder each; leave it out")
    if first["replicas"] != ALONE:
        OmegaConf.update(task, "replicas", ALONE, merge=False, force_add=True)
        first = {**first, "replicas": ALONE}
    chosen = {group: found.get(group) or choice_of(group, first[group]) for group in GROUPS}
    chosen["recipe"] = first["recipe"]
    configs = list(_each_config(task, first, asked, packages))
    known = {} if known is None else known
    processes = processes_of(first) or processes_of_trainer(first, packages)
    digests = [config_hash(config, fingerprint(config, packages, known), processes) for config in configs]
    for config, digest in zip(configs, digests, strict=True):
        folder = Path(config["run_dir"] or default_folder(config, chosen, digest))
        several = len(asked) > 1
        own = [f"seed={config['seed']}"] if several or seeds is not None else []
        own += [f"lr={config['lr']}"] if several or rates is not None else []
        own += ["replicas=1"] if replicas and several else []
        yield RunSpec(
            config=config,
            choices=chosen,
            digest=digest,
            folder=folder,
            overrides=(*overrides, *own),
            together=digests[0] if replicas and several else "",
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
    if seeds is None and rates is None:
        return [(config["seed"], None)] if config["replicas"] == ALONE else seeds_and_rates(config)
    own = [config["seed"]] if seeds is None else seeds
    return [(seed, rate) for rate in (rates or (None,)) for seed in own]


def _each_config(
    task: DictConfig, first: dict[str, Any], asked: Sequence[tuple[int, float | None]], allowed: Any
) -> Iterator[dict[str, Any]]:
    """The configuration at each seed and rate. OmegaConf takes ten milliseconds to resolve one, so they are derived
    from the first where seed and rate only appear in their places."""
    places = _places(task) if len(asked) > 1 else None
    for seed, rate in asked:
        values = {"seed": seed} | ({} if rate is None else {"lr": rate})
        if all(first[key] == value for key, value in values.items()):
            yield first
        elif places is None:
            alone = pickle.loads(pickle.dumps(task))
            for key, value in values.items():
                alone[key] = value
            yield resolved(alone, allowed)
        else:
            config, copied = dict(first), set[Place]()
            for key, value in values.items():
                check_setting(FREE[key], value)
                for place in places[key]:
                    _put(config, place, value, copied)
            yield config


def _places(task: DictConfig) -> dict[str, list[Place]] | None:
    """Where the values of `seed` and `lr` appear in the resolved configuration, found by marks in their place. None if
    a reference calls a resolver, which may make anything of a value, or joins a value to a text."""
    texts = [
        value for _, value in _leaves(OmegaConf.to_container(task, resolve=False)) if isinstance(value, str)
    ]
    if any("${" in text and (":" in text or (text.count("${") > 1 and not _flat(text))) for text in texts):
        return None
    marks = {key: f"<{key}>" for key in FREE}
    marked = pickle.loads(pickle.dumps(task))
    try:
        for key, mark in marks.items():
            marked[key] = mark
        leaves = list(_leaves(OmegaConf.to_container(marked, resolve=True)))
    except OmegaConfBaseException:
        return None
    if any(mark in value != mark for _, value in leaves if isinstance(value, str) for mark in marks.values()):
        return None
    return {key: [place for place, value in leaves if value == mark] for key, mark in marks.items()}


def _flat(text: str) -> bool:
    """Whether no reference stands inside another."""
    return all("${" not in part.partition("}")[0] for part in text.split("${")[1:-1])


def _leaves(node: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _leaves(value, (*place, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _leaves(value, (*place, index))
    else:
        yield place, node


def _put(config: dict[str, Any], place: Place, value: Any, copied: set[Place]) -> None:
    """Replace a value. The nodes on the way to it are copied once; all others stay shared."""
    node: Any = config
    for depth, part in enumerate(place[:-1], 1):
        if place[:depth] not in copied:
            copied.add(place[:depth])
            node[part] = node[part].copy()
        node = node[part]
    node[place[-1]] = value


def kind_of(spec: RunSpec) -> str:
    """A text that is equal for runs that build alike and whose steps take equally long: all values but seed and rate,
    and those of data and optimizer if they follow."""
    config = spec.config
    kept = {**config, "seed": None, "lr": None}
    for group, key in (("data", "seed"), ("optimizer", "lr")):
        if config[group].get(key) == config[key]:
            kept[group] = {**config[group], key: None}
    return json.dumps(kept, default=str)


ALONE = {"seeds": 1, "lr": None}  # one run
MOST = 1024
FORMS = "replicas=16, replicas.seeds=[0,3,5], replicas.lr=[0.01,0.1]"


def seeds_and_rates(config: dict[str, Any]) -> list[tuple[int, float | None]]:
    """(seed, learning rate) of each replica; None for the configuration's own rate.

    `replicas` is a number of seeds that start at `seed`, or {"seeds": that number or a list, "lr": a list or None}.
    Every seed is combined with every rate. Raises ValueError with one line for anything else.
    """
    asked = config["replicas"]
    asked = {"seeds": asked} if isinstance(asked, int) else asked
    unknown = set(asked) - {"seeds", "lr"}
    if unknown:
        raise ValueError(f"replicas.{min(unknown)}: no such key; write {FORMS}")
    seeds, rates = asked.get("seeds", 1), asked.get("lr")
    given = [v for v in (seeds, rates) if isinstance(v, int | list) and not isinstance(v, bool)]
    count = math.prod(len(v) if isinstance(v, list) else v for v in given)
    if count > MOST:
        raise ValueError(
            f"replicas={count}: as many models in memory at once, and as many folders; at most {MOST}, or a sweep"
        )
    if _is(seeds, int) and seeds >= 1:
        seeds = [config["seed"] + index for index in range(seeds)]
    elif not (isinstance(seeds, list) and seeds and all(_is(s, int) and s >= 0 for s in seeds)):
        raise ValueError(
            f"replicas.seeds={seeds}: must be a number of at least 1 or a list of seeds; write {FORMS}"
        )
    if rates is None:
        rates = [None]
    elif not (isinstance(rates, list) and rates and all(_is(r, int, float) and r > 0 for r in rates)):
        raise ValueError(f"replicas.lr={rates}: must be a list of positive learning rates; write {FORMS}")
    for name, values in (("seeds", seeds), ("lr", rates)):
        if len(set(values)) < len(values):
            raise ValueError(f"replicas.{name}={values}: names one twice; each replica is a run of its own")
    return [(seed, None if rate is None else float(rate)) for rate in rates for seed in seeds]


def _is(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
