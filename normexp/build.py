"""From a composed configuration to the parts of a run."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from hydra.conf import HydraConf
from omegaconf import DictConfig, OmegaConf

from normexp.build_model import build_model
from normexp.composition import files_of, plain_values
from normexp.config.checks import check_compiler, validate
from normexp.config.construct import construct, refused
from normexp.config.identity import config_hash
from normexp.config.run_parts import Parts
from normexp.config.seeds_and_rates import ALONE, seeds_and_rates
from normexp.config.settings import GROUPS
from normexp.data.base import DataModule
from normexp.kinds_and_names import check_kinds, name_of
from normexp.lit_model import LitModel
from normexp.training.length import total_steps
from normexp.training.lightning import quiet_lightning
from normexp.training.rehearsal import check_options, check_trainer, rehearse, rehearse_optimizer


def resolved(cfg: DictConfig, allowed: Iterable[str] | None = None) -> dict[str, Any]:
    """The configuration as plain, validated values. `allowed` are the user's packages that `_target_` may name; by
    default those of the command line."""
    config = plain_values(cfg)
    validate(config, allowed)
    check_options(config["trainer"])
    return config


def each_run(
    cfg: DictConfig, allowed: Iterable[str] | None = None
) -> list[tuple[DictConfig, dict[str, Any]]]:
    """For each run of a configuration: the configuration of this run alone, and the same as plain values."""
    if (config := resolved(cfg, allowed))["replicas"] == ALONE:
        return [(cfg, config)]
    asked, runs = seeds_and_rates(config), []
    if config["run_dir"] and len(asked) > 1:
        raise ValueError(f"run_dir={config['run_dir']}: replicas have a folder each; leave it out")
    for seed, lr in asked:
        alone = copy.deepcopy(cfg)
        OmegaConf.update(alone, "replicas", ALONE, force_add=True)
        alone.seed = seed
        if lr is not None:
            alone.lr = lr
        runs.append((alone, resolved(alone, allowed)))
    return runs


def build_all(
    cfg: DictConfig,
    choices: dict[str, str],
    hydra_config: HydraConf | DictConfig | None = None,
    command: str = "",
    allowed: Iterable[str] | None = None,
) -> list[Parts]:
    """The runs of a configuration: one, or one per replica. All share one copy of the data.

    Given Hydra's own configuration, `.hydra/` says how the runs were composed.
    """
    parts: list[Parts] = []
    runs = each_run(cfg, allowed)
    for alone, config in runs:
        own = [f"seed={config['seed']}", f"lr={config['lr']}", "replicas=1"] if len(runs) > 1 else []
        files = None if hydra_config is None else files_of(alone, hydra_config, own)
        loaded = [other.data for other in parts]
        parts.append(build(alone, choices, files=files, command=command, loaded=loaded, allowed=allowed))
    return parts


def build(
    cfg: DictConfig,
    choices: dict[str, str],
    *,
    files: dict[str, str] | None = None,
    command: str = "",
    loaded: Sequence[DataModule] = (),
    allowed: Iterable[str] | None = None,
) -> Parts:
    """Build data, model and trainer of one run. Raises ValueError with one line before anything is written.

    Args:
        files: for `.hydra/`; None writes only the configuration.
        command: the command line of the run.
        loaded: the data of other runs. They are shared, not copied, if only the order of batches differs.
        allowed: the user's packages that `_target_` may name; by default those of the command line.
    """
    quiet_lightning()
    config = resolved(cfg, allowed)
    check_kinds(config, choices, allowed)
    data: DataModule = construct("data", config["data"], allowed)
    data.load(like=loaded)
    model = build_model(config, data, allowed)
    with refused("model", type(model).__name__):
        rehearse(model, data, config["batch_size"])
    module = LitModel(
        model,
        construct("optimizer", config["optimizer"], allowed),
        construct("schedule", config["schedule"], allowed),
        total_steps=total_steps(config, data),
        channels_last=config["channels_last"] and getattr(model, "convolves", False),
    )
    with refused("schedule", type(module.schedule).__name__):
        rehearse_optimizer(module, fused=not str(config["trainer"].get("precision")).startswith("16"))
    make_trainer = construct("trainer", config["trainer"], allowed)
    check_trainer(make_trainer, config, choices)
    if config["compile"]:
        check_compiler(config)
    nodes = {f"monitor.{key}": node for key, node in config["monitor"].items() if node is not None}
    monitors = [construct(path, node, allowed) for path, node in nodes.items()]
    chosen = {group: choices.get(group) or name_of(group, config[group]) for group in GROUPS}
    return Parts(
        config=config,
        choices=chosen | {"recipe": config["recipe"]},
        digest=config_hash(config, data.fingerprint),
        data=data,
        module=module,
        make_trainer=make_trainer,
        monitors=monitors,
        files=files or {"config.yaml": OmegaConf.to_yaml(cfg)},
        command=command,
    )
