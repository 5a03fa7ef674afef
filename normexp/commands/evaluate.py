"""Evaluate a saved run again, without training: `normexp evaluate outputs/<...>`."""

import argparse
from pathlib import Path
from typing import Any

from normexp.cli import one_line_errors
from normexp.invocation import command, program
from normexp.runs import read_summary
from normexp.runs.columns import OLDER


def parse(arguments: list[str]) -> argparse.Namespace:
    example = f"{command('evaluate')} outputs/runs/mlp/layernorm-bs64-s0-..."
    parser = argparse.ArgumentParser(
        prog=program("evaluate"),
        description=f"Evaluate a saved run again, without training: `{example}`",
    )
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument(
        "--checkpoint", choices=["last", "best"], default="last", help="which weights (default: last)"
    )
    parser.add_argument("overrides", nargs="*", help="changed keys, for example data.root=/my/data")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    with one_line_errors():
        evaluate(options.run, options.checkpoint, options.overrides)
    return 0


def evaluate(run: Path, checkpoint: str, overrides: list[str]) -> None:
    """Print the metrics beside the recorded ones; raises ValueError with one line for what cannot be evaluated."""
    weights = run / "checkpoints" / f"{checkpoint}.ckpt"
    summary = read_summary(run) or {}
    if not weights.exists():
        raise ValueError(f"{weights}: not found; name the folder of a run that was trained")
    cfg, choices = configuration(run, summary, overrides)

    from normexp.build import build
    from normexp.config.recipe import older
    from normexp.training.checkpoint import load_checkpoint
    from normexp.training.summarize import final_metrics

    parts = build(cfg, choices)
    state = load_checkpoint(weights)
    try:
        parts.module.load_state_dict(state["state_dict"])
    except RuntimeError as error:
        reason = " ".join(str(error).splitlines()[1].split()) if "\n" in str(error) else str(error)
        changed = (
            f"{' '.join(overrides)}: changes the model; leave it out" if overrides else "train the run again"
        )
        raise ValueError(f"{weights}: does not fit the model ({reason.rstrip('.')}); {changed}") from None
    trainer = parts.make_trainer(logger=False, enable_progress_bar=False, enable_checkpointing=False)
    parts.data.trainer = trainer
    title = f"{run}, {checkpoint}.ckpt, step {state['global_step']}"
    show(title, final_metrics(parts, trainer)[0], summary.get("metrics", {}))
    if summary and (note := older(summary)):
        print(note)


def configuration(run: Path, summary: dict[str, Any], overrides: list[str]) -> tuple[Any, dict[str, str]]:
    """The run's configuration with the overrides put in place, and its choices."""
    from omegaconf import OmegaConf
    from yaml import YAMLError

    from normexp.build import compose

    saved = run / ".hydra" / "config.yaml"
    if not saved.exists() and "config" not in summary:
        raise ValueError(f"{saved}: not found; name the folder of a run that was trained")
    try:
        # runs in the cache of claims did not always have the file, but every finished run recorded what it says
        cfg = OmegaConf.load(saved) if saved.exists() else OmegaConf.create(summary["config"])
        choices = (
            summary.get("choices") or OmegaConf.load(saved.with_name("hydra.yaml")).hydra.runtime.choices
        )
    except (YAMLError, FileNotFoundError) as error:
        raise ValueError(
            f"{saved}: cannot be read ({' '.join(str(error).split())}); train the run again"
        ) from None
    for key, default in compose([])[0].items_ex(resolve=False):
        if key not in cfg:  # a run of an earlier version, before there was this key
            cfg[key] = OLDER if key == "recipe" else default
    for override in overrides:
        key, equals, value = override.removeprefix("+").partition("=")
        # cfg stands for no such key, since None is a value too
        known = OmegaConf.select(cfg, key, default=cfg) is not cfg
        if not equals or not (known or override.startswith("+")):
            raise ValueError(f"{override}: no such key; write key=value with a key of {saved}, or +key=value")
        try:
            OmegaConf.update(cfg, key, OmegaConf.from_dotlist([f"value={value}"]).value)
        except YAMLError:
            raise ValueError(f"{override}: is no value; close its brackets and quotes") from None
    return cfg, dict(choices)


def show(title: str, metrics: dict[str, float], recorded: dict[str, float | None]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_edge=False)
    for column in ("metric", "now", "recorded"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for name, value in metrics.items():
        old = recorded.get(name)
        table.add_row(name, f"{value:.6f}", "" if old is None else f"{old:.6f}")
    Console().print(table, highlight=False)
