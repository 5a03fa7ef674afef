"""Read the saved configuration of a run and apply overrides. The run's folder may be a stranger's."""

from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from normexp.config.allowed import allowed_packages
from normexp.config.compose import compose
from normexp.config.interpolations import check_interpolations
from normexp.config.run_spec import RunSpec, runs_of
from normexp.config.yaml_files import read_yaml
from normexp.runs.columns import OLDER


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
        cfg = (
            read_configuration(saved) if saved.exists() else _checked(summary["config"], run / "summary.json")
        )
        choices = summary.get("choices") or _choices(saved.with_name("hydra.yaml"))
    except ValueError as error:
        raise ValueError(f"{error}; train the run again") from None
    for key, default in compose([])[0].items_ex(resolve=False):
        if key not in cfg:  # the run is older than this key
            cfg[key] = OLDER if key == "recipe" else default
    cfg.logger = []  # the run may have logged with a package that is not installed here
    for override in overrides:
        _put(cfg, override, saved)
    cfg.allow_targets = list(allowed_packages())
    (spec,) = runs_of(cfg, overrides, choices=dict(choices))
    return spec


def read_configuration(path: Path) -> DictConfig:
    """A saved configuration, perhaps a stranger's. Raises ValueError with one line if it cannot be read."""
    return _checked(read_yaml(path), path)


def _checked(content: Any, path: Path) -> DictConfig:
    try:
        cfg = OmegaConf.create(content)
    except Exception as error:  # OmegaConf and the parser raise a dozen types
        raise ValueError(f"{path}: cannot be read ({' '.join(str(error).split())})") from None
    if not isinstance(cfg, DictConfig):
        raise ValueError(f"{path}: cannot be read (holds no keys with values)")
    check_interpolations(cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False)))
    return cfg


def _choices(path: Path) -> dict[str, str]:
    choices = OmegaConf.to_container(read_configuration(path), resolve=False)
    for key in ("hydra", "runtime", "choices"):
        choices = choices.get(key) if isinstance(choices, dict) else None
    if not isinstance(choices, dict):
        raise ValueError(f"{path}: names no choices")
    return {str(group): str(choice) for group, choice in choices.items()}


def _put(cfg: DictConfig, override: str, saved: Path) -> None:
    key, equals, value = override.removeprefix("+").partition("=")
    try:
        # The default `cfg` means that there is no such key; None is a valid value.
        known = OmegaConf.select(cfg, key, default=cfg) is not cfg
        if not equals or not key or not (known or override.startswith("+")):
            raise ValueError(f"{override}: no such key; write key=value with a key of {saved}, or +key=value")
        OmegaConf.update(cfg, key, OmegaConf.from_dotlist([f"value={value}"]).value)
    except YAMLError:
        raise ValueError(f"{override}: is no value; close its brackets and quotes") from None
