"""Train one network with a norm of your choice: `normexp train norm=layernorm`, or `python train.py`."""

import contextlib
import sys
from pathlib import Path

from normexp import cli
from normexp.config.folder import CONFIGS
from normexp.invocation import restore_command, typed
from normexp.own_process import imports

with cli.one_line_errors():  # for Ctrl-C too, since these imports take a while
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import DictConfig


def main() -> None:
    """Train as `sys.argv` asks."""
    absolute_config_path(sys.argv)
    cli.run(task)


def absolute_config_path(argv: list[str]) -> None:
    """Make `--config-path` absolute. Hydra would look beside this file, but the user means the working directory."""
    for index, argument in enumerate(argv):
        flag, equals, path = argument.partition("=")
        if flag not in ("--config-path", "-cp"):
            continue
        place = index if equals else index + 1
        path = path if equals else "".join(argv[place : place + 1])
        if path and "://" not in path:
            argv[place] = (f"{flag}=" if equals else "") + str(Path(path).absolute())


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="train")
def task(cfg: DictConfig) -> None:
    """Hydra calls this for one run. In a sweep the project's launcher calls it for each cell."""
    # In a single run, print an error as one line here, before Hydra adds its own. In a sweep the launcher keeps it.
    with contextlib.nullcontext() if HydraConfig.get().mode == RunMode.MULTIRUN else cli.one_line_errors():
        run(cfg)


def run(cfg: DictConfig) -> None:
    """Build and train the runs of a composed configuration."""
    restore_command()
    hydra_config = HydraConfig.get()
    # torch and Lightning take seconds to import, so import them only after Hydra has found no mistake.
    with imports():
        from normexp.build import build_all
        from normexp.training.launch import launch, launch_replicas

        parts = build_all(cfg, dict(hydra_config.runtime.choices), hydra_config, typed(sys.argv))
    if len(parts) == 1:
        launch(parts[0])
    else:
        launch_replicas(parts)
