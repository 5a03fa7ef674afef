"""A run as a plain value, the runs that overrides ask for, and the run of a folder."""

import dataclasses
import pickle
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from normexp.config.checks import validate
from normexp.config.compose import compose, plain_values
from normexp.config.errors import checked, one_line
from normexp.config.folder import allowed_packages, parse_yaml, read_text
from normexp.config.identity import config_hash, default_folder, processes_of
from normexp.config.recipe import OLDER, choices_of
from normexp.config.schema import Root
from normexp.config.targets import fingerprint

SEED, RATE = "<seed>", "<lr>"  # stand where the values of each run go
FREE = re.compile(r"(seed|lr)=([-+\d.eE]+)")
Pairs = Sequence[tuple[int | None, float | None]]


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
    composed: bytes = field(default=b"", repr=False, compare=False)  # pickled, with its references

    def files(self) -> dict[str, str]:
        """The texts of the files in `.hydra/`, where references stay references, `${lr}`."""
        cfg: DictConfig = pickle.loads(self.composed)
        for key in ("seed", "lr", "threads"):
            OmegaConf.update(cfg, key, self.config[key], merge=False, force_add=True)
        return {
            "config.yaml": OmegaConf.to_yaml(cfg),
            "hydra.yaml": OmegaConf.to_yaml({"hydra": {"runtime": {"choices": self.choices}}}),
            "overrides.yaml": OmegaConf.to_yaml(list(self.overrides)),
        }


def specs(
    overrides: Iterable[str],
    *,
    seeds: Sequence[int] | None = None,
    rates: Sequence[float] | None = None,
    allowed: Iterable[str] | None = None,
) -> list[RunSpec]:
    """The runs that overrides ask for: one, or the product of `rates` and `seeds`.

    Args:
        overrides: as on the command line of `train`.
        seeds, rates: one run for each pair, with the rates outside. By default those of the configuration.
        allowed: the user's packages that `_target_` may name; by default those of the command line.

    Raises ValueError with one line for a configuration that cannot be a run. Hydra's errors are its own.
    """
    words = tuple(overrides)
    pairs = [(seed, rate) for rate in (rates or (None,)) for seed in (seeds or (None,))]
    return list(runs_of(*compose(words), words, pairs, allowed=allowed))


def specs_of(lists: Sequence[Sequence[str]]) -> list[RunSpec | ValueError]:
    """The run of each list of overrides, or why there is none. Lists that differ in seed and rate alone are composed
    once."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, words in enumerate(lists):
        groups.setdefault(tuple(word for word in words if not FREE.fullmatch(word)), []).append(place)
    found: dict[int, RunSpec | ValueError] = {}
    known: dict[str, str] = {}
    for shared, places in groups.items():
        try:
            runs = list(
                runs_of(*compose(shared), shared, [_pair(lists[place]) for place in places], known=known)
            )
        except Exception as error:
            if len(places) == 1:
                found[places[0]] = ValueError(one_line(error))
            else:  # some may be valid
                found |= {place: specs_of([lists[place]])[0] for place in places}
            continue
        for place, run in zip(places, runs, strict=True):
            found[place] = dataclasses.replace(run, overrides=tuple(lists[place]))
    return [found[place] for place in range(len(lists))]


def _pair(words: Sequence[str]) -> tuple[int | None, float | None]:
    """The seed and the learning rate that words name."""
    asked = dict((match[1], match[2]) for word in words if (match := FREE.fullmatch(word)))
    numbers = {key: int(text) if re.fullmatch(r"-?\d+", text) else float(text) for key, text in asked.items()}
    return numbers.get("seed"), numbers.get("lr")  # type: ignore[return-value]


def runs_of(
    cfg: DictConfig,
    choices: dict[str, str],
    overrides: Sequence[str],
    pairs: Pairs = ((None, None),),
    *,
    allowed: Iterable[str] | None = None,
    known: dict[str, str] | None = None,
) -> Iterator[RunSpec]:
    """The runs of a composed configuration, one for each pair of seed and rate; None stands for its own. `known` as in
    `fingerprint`."""
    packages = None if allowed is None else tuple(allowed)
    known = {} if known is None else known
    pickled, first = pickle.dumps(cfg), resolved(cfg, packages)
    chosen = choices_of(first, choices)
    processes = processes_of(first, packages)
    if first["run_dir"] and len(pairs) > 1:
        raise ValueError(f"run_dir={first['run_dir']}: each of {len(pairs)} runs has a folder; leave it out")
    own_rate = OmegaConf.to_container(cfg.optimizer, resolve=False).get("lr")  # type: ignore[union-attr]
    if len({rate for _, rate in pairs}) > 1 and isinstance(own_rate, int | float):
        raise ValueError(
            f"optimizer.lr={own_rate}: is the rate of each run, so other values of lr move nothing; leave it out"
        )
    cfg.seed, cfg.lr = SEED, RATE
    template = plain_values(cfg)
    for seed, rate in pairs:
        given = {key: value for key, value in (("seed", seed), ("lr", rate)) if value is not None}
        values = {SEED: given.get("seed", first["seed"]), RATE: given.get("lr", first["lr"])}
        config = _filled(template, values) if given else first
        if given:
            checked(Root, config)
        digest = config_hash(config, fingerprint(config, packages, known), processes, packages)
        yield RunSpec(
            config=config,
            choices=chosen,
            digest=digest,
            folder=Path(config["run_dir"] or default_folder(config, chosen, digest)),
            overrides=(*overrides, *(f"{key}={value}" for key, value in given.items())),
            allowed=packages,
            composed=pickled,
        )


def _filled(node: Any, values: dict[str, Any]) -> Any:
    """A copy of a resolved node with the seed and the rate of a run."""
    if isinstance(node, dict):
        return {key: _filled(item, values) for key, item in node.items()}
    if isinstance(node, list):
        return [_filled(item, values) for item in node]
    if not isinstance(node, str) or node in values:
        return values.get(node, node) if isinstance(node, str) else node
    for mark, value in values.items():
        node = node.replace(mark, str(value))
    return node


def resolved(cfg: DictConfig, allowed: Iterable[str] | None = None) -> dict[str, Any]:
    """A configuration as plain, validated values. Raises ValueError with one line for the first mistake."""
    config = plain_values(cfg)
    validate(config, allowed)
    return config


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
        content = parse_yaml(read_text(saved), saved) if saved.exists() else summary["config"]
        cfg = OmegaConf.create(content)
        asked = saved.with_name("hydra.yaml")
        choices = summary.get("choices") or parse_yaml(read_text(asked), asked)["hydra"]["runtime"]["choices"]
        for key, default in compose([])[0].items_ex(resolve=False):
            if key not in cfg:  # the run is older than this key
                cfg[key] = OLDER if key == "recipe" else default
    except Exception as error:  # OmegaConf and the parser raise a dozen types
        raise ValueError(f"{saved}: cannot be read ({one_line(error)}); train the run again") from None
    cfg.pop("replicas", None)  # of runs of earlier versions, as the next
    if cfg.data.get("_target_") not in ("normexp.data.ImageFolder", "normexp.data.CIFAR10JPEG"):
        cfg.data.pop("cache", None)
    cfg.logger, cfg.monitor = [], {}  # nothing is trained; what the run wanted may not be installed here
    for override in overrides:
        _set(cfg, override, saved)
    cfg.allow_targets = list(allowed_packages())
    (spec,) = runs_of(cfg, choices, overrides)
    return spec


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
