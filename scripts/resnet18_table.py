"""Train torchvision's resnet18 on CIFAR-10 with five norms and write the table of docs/own_networks.md.

    python scripts/resnet18_table.py [--seeds 3] [--workers 2] [--outputs outputs]

Seed 0 trains every norm at every rate. The rate with the best validation accuracy trains the other seeds. Finished runs
are skipped, so the command can be stopped and repeated, and `--seeds 0` writes the table of the runs that are there.
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "own_networks.md"
START, END = "<!-- resnet18 -->\n", "<!-- end of resnet18 -->"
NORMS = ("none", "batchnorm", "layernorm", "groupnorm", "rmsnorm")
RATES = (0.0003, 0.001, 0.003)
NAME = "resnet18_table"
INTRODUCTION = """resnet18 on CIFAR-10 with five norms, in percent: 5,000 training images, 4 epochs of 50 steps (AdamW,
batch 100), 1,000 validation and all 10,000 test images, `model.stem=own`, so that its last stages see one pixel. Seed 0
chose each norm's rate on validation (bold). The test accuracy is the mean ± standard deviation over the seeds. A short
training on few images: it shows that the norms train in this network, not which one is best after a long training.

    python scripts/resnet18_table.py

"""
FIXED = (
    *("model=torchvision", "model.name=resnet18", "data=cifar10_jpeg", "data.train_size=5000"),
    *("data.val_size=1000", "batch_size=100", "max_epochs=4", "trainer=cpu", "threads=1", "monitor=none"),
)


def main() -> None:
    """Train what is missing, then write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3, help="seeds of every norm at its best rate")
    parser.add_argument("--workers", type=int, default=None, help="runs at a time; default: one per core")
    parser.add_argument("--outputs", default="outputs")
    given = parser.parse_args()
    if given.seeds:
        train(given.outputs, given.seeds, given.workers)
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    lines = table(finished(given.outputs))
    PAGE.write_text(before + START + INTRODUCTION + lines + END + rest.split(END)[1], encoding="utf-8")
    print(lines)


def train(outputs: str, seeds: int, workers: int | None) -> None:
    """Train every rate with seed 0, then the other seeds at the best rate of each norm."""
    import normexp

    place = [f"name={NAME}", f"outputs={outputs}"] + (
        [f"hydra.launcher.workers={workers}"] if workers else []
    )
    rates = ",".join(map(str, RATES))
    normexp.sweep(*FIXED, *place, f"norm={','.join(NORMS)}", f"lr={rates}", "seed=0")
    for norm, lr in best_rates(finished(outputs)).items():
        if seeds > 1:
            later = ",".join(map(str, range(1, seeds)))
            normexp.sweep(*FIXED, *place, f"norm={norm}", f"lr={lr}", f"seed={later}")


def finished(outputs: str) -> pd.DataFrame:
    """One row per run of this table."""
    from normexp.runs import load_summaries

    return load_summaries(Path(outputs) / NAME)


def best_rates(runs: pd.DataFrame) -> dict[str, float]:
    """Norm -> the rate with the best validation accuracy of seed 0. A run that diverged has none."""
    tried = runs[runs.seed == 0].dropna(subset="val/accuracy")
    return tried.loc[tried.groupby("norm")["val/accuracy"].idxmax()].set_index("norm")["lr"].to_dict()


def table(runs: pd.DataFrame) -> str:
    """The table in Markdown, in percent."""
    best, rates = best_rates(runs), sorted(runs.lr.unique())
    head = ["norm", *(f"val, rate {rate:g}" for rate in rates), "test at the best rate", "each seed"]
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] * len(head))} |"]
    for norm in NORMS:
        own = runs[runs.norm == norm]
        if own.empty:
            continue
        tried = own[own.seed == 0].set_index("lr")["val/accuracy"]
        cells = [_marked(tried.get(rate), bold=rate == best.get(norm)) for rate in rates]
        tests = own[own.lr == best.get(norm)].sort_values("seed")["test/accuracy"] * 100
        if tests.empty:
            cells += ["–", "–"]
        else:
            spread = f" ± {tests.std():.1f}" if len(tests) > 1 else ""
            cells += [f"{tests.mean():.1f}{spread}", ", ".join(f"{value:.1f}" for value in tests)]
        lines.append(f"| {' | '.join([norm, *cells])} |")
    return "\n".join(lines) + "\n"


def _marked(accuracy: float | None, *, bold: bool) -> str:
    if accuracy is None or pd.isna(accuracy):
        return "–"
    text = f"{accuracy * 100:.1f}"
    return f"**{text}**" if bold else text


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
