"""Train one network with a norm of your choice: `normexp train norm=layernorm`, or `python train.py`."""

import sys
from pathlib import Path

from normexp import cli
from normexp.config.folder import CONFIGS
from normexp.invocation import restore_command, typed
from normexp.own_process import imports

with cli.one_line_errors():  # for Ctrl-C too, since these imports take a while
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from omegaconf import DictConfig, open_dict


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
    """Hydra calls this for a run. The cells of a sweep go to the project's launcher."""
    with cli.one_line_errors():  # here, before Hydra adds lines of its own
        run(cfg)


def run(cfg: DictConfig) -> None:
    """Train the runs of a composed configuration."""
    restore_command()
    # torch and Lightning take seconds to import, so import them only after Hydra has found no mistake.
    with imports():
        from normexp.config.run_spec import runs_of
        from normexp.training.train import train

        node = HydraConfig.get()
        with open_dict(cfg):
            cfg.hydra = node
        specs = list(runs_of(cfg, node.overrides.task))
        train(specs, typed(sys.argv))
