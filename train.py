"""Train one network with a norm of your choice: `python train.py norm=layernorm`; `--help` explains the rest."""

import contextlib
import shlex
import sys

from normexp import cli

with cli.one_line_errors():  # Ctrl-C, too: these imports take a while
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import DictConfig


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    # In a single run an error is one line here, before Hydra adds its own; in a sweep the launcher keeps it.
    with contextlib.nullcontext() if HydraConfig.get().mode == RunMode.MULTIRUN else cli.one_line_errors():
        run(cfg)


def run(cfg: DictConfig) -> None:
    # torch and Lightning take seconds to import: only now, when Hydra has found nothing wrong.
    from normexp.build import build_all
    from normexp.training.launch import launch
    from normexp.training.replicas.launch_replicas import launch_replicas

    hydra_config = HydraConfig.get()
    command = shlex.join(["python", *sys.argv])
    parts = build_all(cfg, dict(hydra_config.runtime.choices), hydra_config, command)
    if len(parts) == 1:
        launch(parts[0])
    else:
        launch_replicas(parts)


if __name__ == "__main__":
    cli.run(main)
