"""Train one network with a norm of your choice: `normexp train norm=layernorm`, or `python train.py`.

Hydra reads the words. Most mistakes are answered before torch is loaded.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from normexp import __version__
from normexp.config import process
from normexp.config.command_line import is_sweep, quoted, study_of
from normexp.config.errors import full_errors, one_line_errors
from normexp.config.folder import CONFIGS, allow_from, long_flags, use_folder

if TYPE_CHECKING:
    from omegaconf import DictConfig

# What Hydra answers itself, beside sweeps.
HYDRA_FLAGS = (
    "--cfg", "--package", "--resolve", "--info", "--hydra-help", "--shell-completion", "-sc", "--run", "--multirun",
)  # fmt: skip
OF_VERIFY = ("claim", "page")  # keys of another command


def main(words: Sequence[str]) -> int:
    """Train as the words ask; print every error as one line unless HYDRA_FULL_ERROR=1. Returns the exit status."""
    process.prepare()
    arguments = long_flags(words)
    if "--version" in arguments:
        print(f"normexp {__version__}")
    elif "--help" in arguments or "-h" in arguments:
        show_help(arguments)
    else:
        with one_line_errors():
            train(arguments)
    return 0


def train(arguments: list[str]) -> None:
    """Train the run that words ask for, or hand a sweep to Hydra."""
    arguments = launcher_flags(arguments)
    if mistake := find_mistake(arguments):
        raise ValueError(mistake)
    folders = [word.partition("=")[2] for word in arguments if word.startswith("--config-dir=")]
    use_folder(folders[-1] if folders else None)
    allow_from(arguments)
    flags = [word for word in arguments if word.startswith("-")]
    words = [word for word in arguments if word not in flags]
    if is_sweep(arguments) or any(flag.partition("=")[0] in HYDRA_FLAGS for flag in flags):
        study = study_of(arguments)
        by_hydra([*flags, *words, *([f"name={study}"] if study else [])])
        return
    from normexp.config.compose import compose

    run(*compose(words), words)


def by_hydra(arguments: list[str]) -> None:
    """Let Hydra answer. The cells of a sweep go to the project's launcher, or to one of Hydra's, which calls `task`."""
    from hydra import version
    from hydra._internal.utils import _run_hydra, get_args_parser

    # The command as it is recorded, with the study's name. Lightning starts other processes by it.
    sys.argv = [*sys.argv[: 2 if sys.argv[1:2] == ["train"] else 1], *arguments]
    # The first variable makes Hydra raise instead of printing several lines. Worker processes inherit both; the second
    # tells them that the user did not ask for it.
    if not full_errors():
        os.environ["NORMEXP_ONE_LINE"] = "1"
        os.environ["HYDRA_FULL_ERROR"] = "1"
    version.setbase("1.3")
    parser = get_args_parser()
    _run_hydra(parser.parse_args(arguments), parser, task, str(CONFIGS), "train")


def task(cfg: "DictConfig") -> None:
    """Hydra calls this for a run of one of its launchers."""
    from hydra.core.hydra_config import HydraConfig

    with one_line_errors():  # here, before Hydra adds lines of its own
        node = HydraConfig.get()
        choices = {key: value for key, value in node.runtime.choices.items() if "hydra/" not in key}
        run(cfg, choices, list(node.overrides.task))


def run(cfg: "DictConfig", choices: dict[str, str], words: list[str]) -> None:
    """Train the run of a composed configuration."""
    with process.fast_imports():
        from normexp.config.run_spec import runs_of

        (spec,) = runs_of(cfg, choices, words)
        from normexp.training.train import train as train_run

        train_run(spec, process.typed(sys.argv))


def show_help(arguments: list[str]) -> None:
    """`--help`, or the help of what stands beside it: `--help norm=batchnorm`, `--help norm`, `--help lr`."""
    from normexp.cli.help import help_for

    try:
        text = help_for([argument for argument in arguments if not argument.startswith("-")])
    except ValueError as error:
        process.fail(str(error), process.BAD_INPUT)
    with process.cut_quietly():
        print(text)


def launcher_flags(arguments: list[str]) -> list[str]:
    """`--place slurm` as Hydra takes it; raises ValueError where there is no sweep to run so."""
    if not any(argument.startswith("--") for argument in arguments):
        return arguments
    from normexp.sweeps.options import take_flags

    rest, given = take_flags(arguments)
    if given and not is_sweep(rest):
        raise ValueError(f"--{given[0][0].replace('_', '-')}: is for sweeps; add -m")
    return rest + [f"{'++' * ('.' in name)}hydra.launcher.{name}={quoted(value)}" for name, value in given]


def find_mistake(arguments: list[str]) -> str | None:
    """The message for a common mistake, found before Hydra parses anything."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.startswith("--") and name not in (*HYDRA_FLAGS, "--config-dir"):
            key = name.lstrip("-").replace("-", "_")
            following = arguments[index + 1] if index + 1 < len(arguments) else "VALUE"
            return f"{name}: keys are set without dashes; write {key}={value if equals else following}"
        if equals and name in OF_VERIFY:
            return f"{argument}: claims are verified, not trained by hand; write {process.command('verify')} {argument}"
        # "." is what Lightning gives to each process that it starts for trainer=ddp.
        key, sweep = name.lstrip("+"), is_sweep(arguments)
        if (key == "hydra.run.dir" and value.strip("\"'") != ".") or key in (
            "hydra.sweep.dir",
            "hydra.sweep.subdir",
        ):
            return f"{argument}: is not read; write {'outputs' if sweep else 'run_dir'}={value}"
    return None
