"""Train one network with a norm of your choice: `normexp train norm=layernorm`, or `python train.py`.

Most mistakes are answered before torch is loaded.
"""

import os
import sys
from pathlib import Path

from normexp import __version__
from normexp.config import process
from normexp.config.command_line import check_choices, is_sweep, quoted, study_of
from normexp.config.errors import full_errors, one_line_errors
from normexp.config.folder import CONFIGS, FLAGS, allow_from, long_flags

with one_line_errors():  # for Ctrl-C too, since these imports take a while
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from omegaconf import DictConfig, OmegaConf, open_dict

HYDRA_FLAGS = (
    *FLAGS.values(), "--hydra-help", "--version", "--resolve", "--run", "--multirun", "--shell-completion", "--info",
)  # fmt: skip
OF_VERIFY = ("claim", "page")  # keys of another command


def main() -> None:
    """Train as `sys.argv` asks; print every error as one line unless HYDRA_FULL_ERROR=1."""
    process.prepare()
    arguments = [absolute_config_path(argument) for argument in long_flags(sys.argv[1:])]
    if "--version" in arguments:
        print(f"normexp {__version__}")
        return
    if "--help" in arguments or "-h" in arguments:
        show_help(arguments)
        return
    if any(argument.startswith("--") for argument in arguments):
        with one_line_errors():
            arguments = launcher_flags(arguments)
    if mistake := find_mistake(arguments):
        process.fail(mistake, process.BAD_INPUT)
    # Hydra reads nan as a number, and a choice must be a word.
    arguments = ['debug="nan"' if argument == "debug=nan" else argument for argument in arguments]
    if "--info" not in arguments:  # argparse takes words at one place only, and people write flags anywhere
        arguments.sort(key=lambda word: not word.startswith("-"))
    sys.argv[1:] = [*arguments, *(f"name={name}" for name in (study_of(arguments),) if name)]
    # The first variable makes Hydra raise instead of printing several lines. Worker processes inherit both; the second
    # tells them that the user did not ask for it.
    if not full_errors():
        os.environ["NORMEXP_ONE_LINE"] = "1"
        os.environ["HYDRA_FULL_ERROR"] = "1"
    with one_line_errors():
        allow_from(arguments)
        words = [word for word in arguments if "=" in word and not word.startswith("-")]
        check_choices(OverridesParser.create().parse_overrides(words))
        if any(argument.startswith("--config-") or "hydra.searchpath" in argument for argument in arguments):
            from normexp.config.compose import check_command_line

            check_command_line(arguments)  # files of the user's own
        task()


@hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name="train")
def task(cfg: DictConfig) -> None:
    """Hydra calls this for a run. The cells of a sweep go to the project's launcher."""
    with one_line_errors():  # here, before Hydra adds lines of its own
        run(cfg)


def run(cfg: DictConfig) -> None:
    """Train the run of a composed configuration."""
    process.restore_command()
    with process.fast_imports():
        if finished(cfg):
            return
        # torch and Lightning take seconds to import, so import them only after Hydra has found no mistake.
        from normexp.config.run_spec import runs_of
        from normexp.training.train import train

        node = HydraConfig.get()
        with open_dict(cfg):
            cfg.hydra = node
        (spec,) = runs_of(cfg, node.overrides.task)
        train(spec, process.typed(sys.argv))


def finished(cfg: DictConfig) -> bool:
    """Show the result of a run that is finished. This needs no torch, which takes seconds to load, because a finished
    run was valid. False where only the slow way can tell: for data of one's own, several processes."""
    from normexp.config.compose import plain_values
    from normexp.config.identity import counted, default_folder, processes_of
    from normexp.config.recipe import choices_of
    from normexp.runs import read_summary

    node = HydraConfig.get()
    config = plain_values(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"]))
    choices = choices_of(config, node.runtime.choices)
    if config["fast_dev_run"]:
        return False
    place = default_folder(config, choices, "")
    folders = [Path(config["run_dir"])] if config["run_dir"] else place.parent.glob(f"{place.name}*")
    for folder in folders:
        summary = read_summary(folder)
        if not summary or summary["fingerprint"] or counted(summary["config"]) != counted(config):
            continue
        if summary["execution"].get("devices", 1) == processes_of(config):
            from normexp.training.screen import make_console, show_finished

            show_finished(folder, summary, config, choices, process.typed(sys.argv), make_console())
            return True
    return False


def show_help(arguments: list[str]) -> None:
    """`--help`, or the help of what stands beside it: `--help norm=batchnorm`, `--help norm`, `--help lr`."""
    from normexp.cli.help import help_for

    try:
        text = help_for([argument for argument in arguments if not argument.startswith("-")])
    except ValueError as error:
        process.fail(str(error), process.BAD_INPUT)
    with process.cut_quietly():
        print(text)


def absolute_config_path(argument: str) -> str:
    """`--config-path` as seen from the working directory. Hydra would look beside this file."""
    flag, _, path = argument.partition("=")
    return f"{flag}={Path(path).absolute()}" if flag == "--config-path" and "://" not in path else argument


def launcher_flags(arguments: list[str]) -> list[str]:
    """`--place slurm` as Hydra takes it; raises ValueError where there is no sweep to run so."""
    from normexp.sweeps.options import take_flags

    rest, given = take_flags(arguments)
    if given and not is_sweep(rest):
        raise ValueError(f"--{given[0][0].replace('_', '-')}: is for sweeps; add -m")
    return rest + [f"{'++' * ('.' in name)}hydra.launcher.{name}={quoted(value)}" for name, value in given]


def find_mistake(arguments: list[str]) -> str | None:
    """The message for a common mistake, found before Hydra parses anything."""
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == "--experimental-rerun":
            return f"{name}: a pickle runs what is in it; write --config-path RUN/.hydra --config-name config"
        if name.startswith("--") and name not in HYDRA_FLAGS:
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
