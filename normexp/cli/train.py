"""Train one network with a norm of your choice: `normexp train norm=layernorm`, or `python train.py`.

Hydra reads the words. Most mistakes are answered before torch is loaded.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from normexp.config import process
from normexp.config.errors import one_line_errors
from normexp.config.folder import allow_from, use_folder
from normexp.config.options import expanded, quoted, require_once
from normexp.format import tell
from normexp.sweeps.options import SweepOptions

OF_VERIFY = ("claim", "page")  # keys of another command


class Flags(argparse.ArgumentParser):
    """The flags of `train`, between words; the others are keys."""

    def __init__(self) -> None:
        super().__init__(add_help=False, allow_abbrev=False)
        self.add_argument("words", nargs="*")
        self.add_argument("-m", "--multirun", action="store_true")
        self.add_argument("-h", "--help", action="store_true")
        self.add_argument("--resolve", action="store_true")
        self.add_argument("-c", "--cfg", choices=("job", "hydra", "all"))
        self.add_argument("-cd", "--config-dir")
        self.add_argument("--plan", action="store_const", const="true")
        self.add_argument("--slurm", action="append", default=[])
        for name in SweepOptions.model_fields.keys() - {"plan", "slurm"}:
            self.add_argument(f"--{name.replace('_', '-')}")

    def error(self, message: str) -> None:  # type: ignore[override]
        name, _, why = message.removeprefix("argument ").partition(": ")
        flag = name.rpartition("/")[2]
        if why == "expected one argument":
            why = f"a value is missing; write {flag}={'job' if flag == '--cfg' else 'VALUE'}"
        raise ValueError(f"{flag}: {why}" if why else message)


def main(arguments: Sequence[str]) -> int:
    """Train as the words ask; print every error as one line unless HYDRA_FULL_ERROR=1. Returns the exit status."""
    with one_line_errors():
        train(list(arguments))
    return 0


def train(arguments: list[str]) -> None:
    """Train the run that words ask for, or hand a sweep to Hydra."""
    flags, unknown = Flags().parse_known_intermixed_args(arguments)
    if flags.help:
        use_folder(flags.config_dir)
        from normexp.cli.help import explain, help_text

        tell("\n\n".join(map(explain, flags.words)) or help_text())
        return
    preset = any(word.startswith("experiment=") for word in flags.words)  # a whole sweep
    many = flags.multirun or (preset and "hydra.mode=RUN" not in flags.words)
    if mistake := find_mistake(flags.words, unknown, many=many):
        raise ValueError(mistake)
    options = [word for word in arguments if word.startswith("--") and word.partition("=")[0] != "--slurm"]
    require_once([*flags.words, *options])
    given = {name: getattr(flags, name) for name in SweepOptions.model_fields if name != "slurm"}
    placed = {name: text for name, text in given.items() if text is not None}
    placed |= {f"slurm.{key}": value for key, _, value in (text.partition("=") for text in flags.slurm)}
    for name in placed if not many else ():
        raise ValueError(f"--{name.replace('_', '-')}: is for sweeps; add -m")
    use_folder(flags.config_dir)
    allow_from(flags.words)
    from normexp.config.compose import hydra_itself

    # A key of sbatch is new to the configuration.
    new = {key: "++" if "." in key else "" for key in placed}
    placement = [f"{new[key]}hydra.launcher.{key}={quoted(value)}" for key, value in placed.items()]
    overrides = [*expanded(flags.words), *placement] if many or flags.cfg else flags.words
    if flags.cfg and flags.multirun:
        raise ValueError(
            "--cfg: shows the configuration of one run; write one value for each key, without -m"
        )
    if flags.cfg:
        hydra_itself().show_cfg("train", overrides, flags.cfg, package=None, resolve=flags.resolve)
    elif many:
        sweep(overrides, flags.config_dir)
    else:
        run(overrides)


def sweep(overrides: list[str], config_dir: str | None) -> None:
    """Hand the cells to the project's launcher, or to one of Hydra's, which calls `task`."""
    from normexp.config.compose import hydra_itself, study_of

    if study := study_of(overrides):
        overrides = [*overrides, f"name={study}"]
    # The command as it is recorded. Lightning starts other processes by it.
    folder = [f"--config-dir={config_dir}"] if config_dir else []
    sys.argv = [*sys.argv[: 2 if sys.argv[1:2] == ["train"] else 1], "-m", *folder, *overrides]
    hydra_itself().multirun(config_name="train", task_function=task, overrides=overrides)


def task(_: Any) -> None:
    """Hydra calls this for a run of one of its launchers."""
    from hydra.core.hydra_config import HydraConfig

    run(list(HydraConfig.get().overrides.task))


def run(overrides: list[str]) -> None:
    """Train the run that words ask for."""
    with process.fast_imports():
        from normexp.config.run_spec import specs
        from normexp.config.targets import DataOfLaunch

        data = DataOfLaunch()
        (spec,) = specs(overrides, data=data)
        from normexp.training.train import train as train_run
    # Python collects garbage again: what a monitor of the user's leaves behind would stay until the end.
    train_run(spec, process.typed(sys.argv), data.take(spec.config))


def find_mistake(overrides: Sequence[str], unknown: Sequence[str], *, many: bool) -> str | None:
    """The message for a common mistake, found before Hydra parses anything."""
    if unknown:
        flag, equals, value = unknown[0].partition("=")
        key = flag.lstrip("-").replace("-", "_")
        return f"{flag}: keys are set without dashes; write {key}={value if equals else 'VALUE'}"
    for word in overrides:
        key, equals, value = word.lstrip("+").partition("=")
        if equals and key in OF_VERIFY:
            return (
                f"{word}: claims are verified, not trained by hand; write {process.command('verify')} {word}"
            )
        # "." is what Lightning gives to each process that it starts for trainer=ddp.
        if key in ("hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir") and value.strip("\"'") != ".":
            return f"{word}: is not read; write {'outputs' if many else 'run_dir'}={value}"
    return None
