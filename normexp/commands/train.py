"""Train one network with a norm of your choice: `normexp train norm=layernorm`, or `python train.py`."""

import contextlib
import sys
from pathlib import Path

from normexp import cli
from normexp.config.folder import CONFIGS
from normexp.invocation import restore_command, typed

with cli.one_line_errors():  # Ctrl-C, too: these imports take a while
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import DictConfig


def main() -> None:
    """Train as `sys.argv` says."""
    absolute_config_path(sys.argv)
    cli.run(task)


def absolute_config_path(argv: list[str]) -> None:
    """Hydra looks for a relative `--config-path` beside this file; the user means his own folder."""
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
    """What Hydra calls for one run; in a sweep the project's launcher does, for each cell."""
    # In a single run an error is one line here, before Hydra adds its own; in a sweep the launcher keeps it.
    with contextlib.nullcontext() if HydraConfig.get().mode == RunMode.MULTIRUN else cli.one_line_errors():
        run(cfg)


def run(cfg: DictConfig) -> None:
    """Build and train the runs that a composed configuration asks for."""
    restore_command()
    # torch and Lightning take seconds to import: only now, when Hydra has found nothing wrong.
    from normexp.build import build_all
    from normexp.training.launch import launch
    from normexp.training.replicas.launch_replicas import launch_replicas

    hydra_config = HydraConfig.get()
    parts = build_all(cfg, dict(hydra_config.runtime.choices), hydra_config, typed(sys.argv))
    if len(parts) == 1:
        launch(parts[0])
    else:
        launch_replicas(parts)
