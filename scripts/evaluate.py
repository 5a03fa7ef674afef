"""Evaluate a saved run again, without training: `python scripts/evaluate.py outputs/runs/mlp/layernorm-bs64-s0-...`"""

import argparse
import sys
from pathlib import Path


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument(
        "--checkpoint", choices=["last", "best"], default="last", help="which weights (default: last)"
    )
    parser.add_argument("overrides", nargs="*", help="changed keys, for example data.root=/my/data")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    saved = options.run / ".hydra" / "config.yaml"
    weights = options.run / "checkpoints" / f"{options.checkpoint}.ckpt"
    for path in (saved, weights):
        if not path.exists():
            print(f"Error: {path}: not found; name the folder of a run that was trained", file=sys.stderr)
            return 2

    import torch
    from omegaconf import OmegaConf
    from rich.console import Console
    from rich.table import Table

    from normexp.build import build
    from normexp.runs import read_summary
    from normexp.training.summary import final_metrics

    cfg = OmegaConf.merge(OmegaConf.load(saved), OmegaConf.from_dotlist(options.overrides))
    summary = read_summary(options.run) or {}
    choices = (
        summary.get("choices") or OmegaConf.load(options.run / ".hydra" / "hydra.yaml").hydra.runtime.choices
    )
    try:
        parts = build(cfg, dict(choices))
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    state = torch.load(weights, map_location="cpu", weights_only=True)
    parts.module.load_state_dict(state["state_dict"])
    trainer = parts.make_trainer(logger=False, enable_progress_bar=False, enable_checkpointing=False)
    parts.data.trainer = trainer
    metrics = final_metrics(parts, trainer)
    recorded = summary.get("metrics", {})
    table = Table(
        title=f"{options.run}, {options.checkpoint}.ckpt, step {state['global_step']}", show_edge=False
    )
    for column in ("metric", "now", "recorded"):
        table.add_column(column, justify="left" if column == "metric" else "right")
    for name, value in metrics.items():
        old = recorded.get(name)
        table.add_row(name, f"{value:.6f}", "" if old is None else f"{old:.6f}")
    Console().print(table, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
