"""Train one network with a norm of your choice: `python train.py norm=layernorm`; `--help` explains the rest."""

import contextlib

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from normexp import cli


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    # In a single run an error is one line here, before Hydra adds its own; in a sweep the launcher keeps it.
    with contextlib.nullcontext() if HydraConfig.get().mode == RunMode.MULTIRUN else cli.one_line_errors():
        run(cfg)


def run(cfg: DictConfig) -> None:
    # torch and Lightning take seconds to import: only now, when Hydra has found nothing wrong.
    from normexp.build import build_all
    from normexp.training.launch_replicas import launch_all

    hydra_config = HydraConfig.get()
    files = {
        "config.yaml": OmegaConf.to_yaml(cfg),
        "hydra.yaml": OmegaConf.to_yaml(OmegaConf.create({"hydra": hydra_config})),
        "overrides.yaml": OmegaConf.to_yaml(hydra_config.overrides.task),
    }
    launch_all(build_all(cfg, OmegaConf.to_container(hydra_config.runtime.choices)), files)


if __name__ == "__main__":
    cli.run(main)
