"""The tables of whole runs and of evaluation."""

from .markdown_table import table
from .performance_tables import Rows, spread


def evaluation(rows: Rows) -> str:
    head = ["over forward", "range", "model", "what", "images", "ms", "forward ms", "its batches"]
    lines = [
        [
            f"{r['ratio']:.2f}", spread(r), r["model"], r["what"], f"{r['images']:,}", f"{r['ms']:.1f}",
            f"{r['forward_ms']:.1f}", str(r["forward_batch"]),
        ]
        for r in rows
    ]  # fmt: skip
    return table(head, lines)


def families(rows: Rows) -> str:
    head = [
        "ratio",
        "range",
        "limit",
        "family",
        "replicas",
        "epochs",
        "s a run",
        "one by one",
        "runs a minute",
    ]
    lines = [
        [
            f"{r['ratio']:.2f}", spread(r), f"{r['limit']:.2f}", f"`{r['family']}`", str(r["replicas"]),
            str(r["epochs"]), f"{r['together_s']:.2f}", f"{r['alone_s']:.2f}", f"{r['runs_a_minute']:.0f}",
        ]
        for r in rows
    ]  # fmt: skip
    return table(head, lines)


def synchronizations(rows: Rows) -> str:
    """Norms whose steps wait for the device, and how many do not."""
    lines = [
        [f"`{r['norm']}`", r["model"], r["mode"], f"{r['a_step']:g}", r["where"]] for r in rows if r["a_step"]
    ]
    free = sum(not r["a_step"] for r in rows)
    return table(["norm", "model", "mode", "a step", "where"], lines) * bool(lines) + (
        f"\n{free} of {len(rows)} pairs of model and norm wait for the device in no step.\n"
    )
