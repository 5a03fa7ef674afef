"""A run as a plain value, the runs that overrides ask for, and the run of a folder."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig

from normexp.config.checks import validate
from normexp.config.compose import compose, plain_values
from normexp.config.identity import ROOT_DEFAULTS, config_hash, default_folder, processes_of
from normexp.config.schema import GROUPS, Root
from normexp.config.targets import DataOfLaunch


@dataclass(frozen=True)
class RunSpec:
    """One run as a plain, picklable value. Runs share their nodes; do not change them."""

    config: dict[str, Any]  # resolved and validated, in plain types
    choices: dict[str, str]  # group -> chosen name
    digest: str  # hash of the run's identity
    folder: Path  # may not exist yet
    overrides: tuple[str, ...] = ()  # what a user types for this run alone

    def files(self) -> dict[str, str]:
        """The texts of the files in `.hydra/`."""
        contents = {
            "config.yaml": self.config,
            "hydra.yaml": {"hydra": {"runtime": {"choices": self.choices}}},
            "overrides.yaml": list(self.overrides),
        }
        return {name: yaml.safe_dump(content, sort_keys=False) for name, content in contents.items()}


def specs(
    overrides: Iterable[str],
    *,
    seeds: Sequence[int] | None = None,
    rates: Sequence[float] | None = None,
    data: DataOfLaunch | None = None,
) -> list[RunSpec]:
    """The runs that overrides, as on the command line of `train`, ask for: one, or one for each pair of `rates` and
    `seeds`, with the rates outside. `data` keeps what is read for their identity. Raises ValueError with one line for a
    configuration that cannot be a run; Hydra's errors are its own."""
    axes = [f"lr={rate}" for rate in rates or ()], [f"seed={seed}" for seed in seeds or ()]
    lists = [(*overrides, *reversed(given)) for given in itertools.product(*(axis for axis in axes if axis))]
    data = data or DataOfLaunch()
    return [spec_of(*compose(cell), cell, data) for cell in lists]


def spec_of(
    cfg: DictConfig, choices: dict[str, str], overrides: Sequence[str], data: DataOfLaunch
) -> RunSpec:
    """The run of a composed configuration."""
    config = resolved(cfg)
    chosen, processes = choices_of(config, choices), processes_of(config)
    digest = config_hash(config, data.fingerprint(config), processes)
    folder = Path(config["run_dir"] or default_folder(config, chosen, digest))
    return RunSpec(config, chosen, digest, folder, tuple(overrides))


def resolved(cfg: DictConfig) -> dict[str, Any]:
    """A configuration as plain, validated values. Raises ValueError with one line for the first mistake."""
    config = plain_values(cfg)
    validate(config)
    return config


def saved_spec(folder: Path, summary: dict[str, Any]) -> RunSpec:
    """The run of a folder, by its summary, without loggers and monitors: nothing is trained, and what the run wanted
    may not be installed here. Raises ValueError with one line for a configuration of another version."""
    known = {key: value for key, value in summary["config"].items() if key in Root.model_fields}
    data = {key: value for key, value in known["data"].items() if key != "cache"}  # of that machine alone
    config = ROOT_DEFAULTS | known | {"data": data, "logger": [], "monitor": {}, "allow_targets": []}
    validate(config)
    return RunSpec(config, summary["choices"], summary["hash"], folder)


def choices_of(config: dict[str, Any], known: Mapping[str, str]) -> dict[str, str]:
    """The choice of each group in a configuration, and its recipe. `known` is what Hydra keeps of them: nothing for a
    list, `monitor=[light,hessian]`, which is named by its members, and for a node that was written without a choice."""
    nodes = {group: config.get(group) or {} for group in GROUPS}
    unnamed = {
        group: "own" if "_target_" in node else "+".join(node) or "none" for group, node in nodes.items()
    }
    return {group: known.get(group) or unnamed[group] for group in GROUPS} | {"recipe": config["recipe"]}
