"""From a composed configuration to the parts of a run. With `cli.py` the only module that knows Hydra."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, cast

import torch
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.conf import HydraConf
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from normexp.config.checks import check_compiler, validate
from normexp.config.folder import CONFIGS
from normexp.config.identity import config_hash
from normexp.config.run_parts import Parts
from normexp.config.seeds_and_rates import ALONE, seeds_and_rates
from normexp.config.settings import GROUPS
from normexp.config.targets import resolve_target
from normexp.data.base import DataModule
from normexp.lit_model import LitModel
from normexp.training.length import total_steps
from normexp.training.lightning import quiet_lightning
from normexp.training.rehearsal import rehearse
from normexp.training.trainer_check import check_options, check_trainer


def compose(overrides: list[str]) -> tuple[DictConfig, dict[str, str]]:
    """The configuration and the chosen names that `python train.py <overrides>` would see."""
    cfg, hydra_config = compose_with_hydra(overrides)
    return cfg, dict(hydra_config.runtime.choices)


def compose_with_hydra(overrides: list[str]) -> tuple[DictConfig, DictConfig]:
    """The same configuration, and Hydra's own, which `files_of` takes."""
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        cfg = hydra_compose("train", overrides=overrides, return_hydra_config=True)
    hydra_config = cfg.hydra
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg, hydra_config


def resolved(cfg: DictConfig) -> dict[str, Any]:
    """The configuration as plain values, validated."""
    try:
        config = cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
    except OmegaConfBaseException as error:
        raise ValueError(str(error).split("\n")[0]) from None
    validate(config)
    check_options(config["trainer"])
    return config


def files_of(
    cfg: DictConfig, hydra_config: HydraConf | DictConfig, more: Iterable[str] = ()
) -> dict[str, str]:
    """What `.hydra/` of a run's folder says about how it was composed; `more` overrides were put in place since."""
    own = OmegaConf.create({"hydra": copy.deepcopy(hydra_config)})
    OmegaConf.set_readonly(own.hydra, False)
    own.hydra.overrides.task.extend(more)
    own.hydra.job.override_dirname = ",".join(sorted(own.hydra.overrides.task))
    return {
        "config.yaml": OmegaConf.to_yaml(cfg),
        "hydra.yaml": OmegaConf.to_yaml(own),
        "overrides.yaml": OmegaConf.to_yaml(own.hydra.overrides.task),
    }


def each_run(cfg: DictConfig) -> list[tuple[DictConfig, dict[str, Any]]]:
    """Each run that a configuration asks for: the configuration that asks for it alone, and that as plain values."""
    if (config := resolved(cfg))["replicas"] == ALONE:
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
        runs.append((alone, resolved(alone)))
    return runs


def build_all(
    cfg: DictConfig,
    choices: dict[str, str],
    hydra_config: HydraConf | DictConfig | None = None,
    command: str = "",
) -> list[Parts]:
    """The runs that a configuration asks for: one, or one for each replica, with one copy of the data for all.

    With Hydra's own configuration `.hydra/` says how the runs were composed.
    """
    parts: list[Parts] = []
    runs = each_run(cfg)
    for alone, config in runs:
        own = [f"seed={config['seed']}", f"lr={config['lr']}", "replicas=1"] if len(runs) > 1 else []
        files = None if hydra_config is None else files_of(alone, hydra_config, own)
        loaded = [other.data for other in parts]
        parts.append(build(alone, choices, files=files, command=command, loaded=loaded))
    return parts


def build(
    cfg: DictConfig,
    choices: dict[str, str],
    *,
    files: dict[str, str] | None = None,
    command: str = "",
    loaded: Sequence[DataModule] = (),
) -> Parts:
    """Build data, model and trainer of one run; raises ValueError with one line before anything is written.

    Args:
        files: for `.hydra/`; None for the configuration alone.
        command: the command line that asks for the run.
        loaded: the data of other runs, which are used, not copied, where they differ in nothing but the order.
    """
    quiet_lightning()
    config = resolved(cfg)
    check_kinds(config, choices)
    data: DataModule = instantiate(cfg.data)
    data.load(like=loaded)
    model = build_model(cfg, data, config["seed"])
    rehearse(model, data, config["batch_size"] // config["trainer"].get("accumulate_grad_batches", 1) or 1)
    module = LitModel(
        model,
        instantiate(cfg.optimizer),
        instantiate(cfg.schedule),
        total_steps=total_steps(config, data),
        channels_last=config["channels_last"] and getattr(model, "convolves", False),
    )
    make_trainer = instantiate(cfg.trainer)
    check_trainer(make_trainer, config, choices)
    if config["compile"]:
        check_compiler(config)
    monitors = [instantiate(node) for node in cfg.monitor.values() if node is not None]
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


def name_of(group: str, node: dict[str, Any]) -> str:
    """The choice that a node came from where Hydra keeps none: of a list, monitor=[light,hessian], its members; of a
    configuration saved by a run, the file with these values."""
    if "_target_" not in node:
        return "+".join(node) or "none"
    for path in sorted((CONFIGS / group).glob("*.yaml")):
        written = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(path)))
        written.pop("defaults", None)
        same = (value == node.get(key) or "${" in str(value) for key, value in written.items())
        if written.keys() == node.keys() and all(same):
            return path.stem
    return "own"


def build_model(cfg: DictConfig, data: DataModule, seed: int) -> torch.nn.Module:
    """The model with its initial weights: a function of the seed and, except in the norms, of nothing else."""
    torch.manual_seed(seed)
    return instantiate(cfg.model)(
        input_shape=data.input_shape, num_classes=data.num_classes, norm=instantiate(cfg.norm)
    )


def check_kinds(config: dict[str, Any], choices: dict[str, str]) -> None:
    """Refuse a model on data that it cannot read, naming the data that fits."""
    allowed = tuple(config["allow_targets"])
    model = resolve_target("model", config["model"]["_target_"], allowed)
    data = resolve_target("data", config["data"]["_target_"], allowed)
    if model.accepts == data.kind:
        return
    fitting = []
    for path in sorted((CONFIGS / "data").glob("*.yaml")):
        target = OmegaConf.select(OmegaConf.load(path), "_target_")
        if target and resolve_target("data", target, allowed).kind == model.accepts:
            fitting.append(path.stem)
    raise ValueError(
        f"model={choices['model']}: reads {model.accepts} data, and data={choices['data']} is {data.kind} data; "
        f"use data={' or data='.join(fitting)}"
    )
