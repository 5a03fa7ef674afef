"""Targets and measurements, from the rows of all benchmarks."""

from ..baselines.norm_limits import limit
from .markdown_table import table
from .performance_tables import LOOP_LIMITS, Rows

# What was reached, less a few percent of noise; what was asked and missed stays.
TUTORIAL_AT_LEAST = {"mlp": 5.0, "cnn": 3.5, "transformer": 3.5}
LIGHT_AT_MOST, EVALUATION_AT_MOST, EQUAL_WITHIN, SWEEP_AT_MOST = 1.03, 1.15, 1e-11, 0.9
REPLICAS_AT_LEAST = {("cpu", 64): 2.0, ("cpu", 256): 1.5, ("cuda", 64): 8.0}  # (device, width) of the MLP
FAMILIES_AT_LEAST = {"digits_mlp_64": 2.5, "mnist_mlp_64": 2.5, "mnist_mlp_256": 1.5}
SECONDS_AT_MOST = {"cifar10_cnn_16": 15.0}  # of a run of this family, on one core


def targets(found: dict[str, Rows]) -> str:
    lines = [
        *_loop(found),
        *_norms(found),
        *_monitors(found),
        *_startup(found),
        *_replicas(found),
        *_families(found),
        *_evaluation(found),
        *_sweep(found),
        *_leak(found),
    ]
    return table(["measured", "target", "", "what"], lines) if lines else "Nothing of it was measured.\n"


def line(value: float, target: float, what: str, *, at_least: bool = False, form: str = ".2f") -> list[str]:
    met = value >= target if at_least else value <= target
    sign = "≥" if at_least else "≤"
    return [f"{value:{form}}", f"{sign} {target:g}", "met" if met else "**missed**", what]


def _loop(found: dict[str, Rows]) -> list[list[str]]:
    lines = []
    for row in found.get("loop", []):
        where = f"{row['model']}, batch {row['batch_size']}"
        if row["loop"] == "normexp" and row["batch_size"] in LOOP_LIMITS:
            lines.append(
                line(row["ratio"], LOOP_LIMITS[row["batch_size"]], f"one run over a bare loop: {where}")
            )
        elif row["loop"] == "tutorial":
            what = f"Lightning as in tutorials over a bare loop: {where}"
            lines.append(line(row["ratio"], TUTORIAL_AT_LEAST[row["model"]], what, at_least=True))
    return lines


def _norms(found: dict[str, Rows]) -> list[list[str]]:
    """For each norm, the shape that is farthest above its limit, or nearest below."""
    shapes: dict[tuple, list[tuple[float, dict]]] = {}
    for row in found.get("norms", []):
        if allowed := limit(row["norm"], row["device"], row["compiled"]):
            key = row["norm"], row["device"], row["compiled"]
            shapes.setdefault(key, []).append((row["both"]["ours"]["ratio"] / allowed, row))
    lines = []
    for (norm, device, compiled), rows in shapes.items():
        _, worst = max(rows, key=lambda pair: pair[0])
        how = f", compiled on {device}" if compiled else ""
        what = f"norm over torch's layer{how}: {norm}, {worst['shape']}, the worst of {len(rows)} shapes"
        lines.append(line(worst["both"]["ours"]["ratio"], limit(norm, device, compiled), what))
    return lines


def _monitors(found: dict[str, Rows]) -> list[list[str]]:
    rows = [row for row in found.get("monitors", []) if row["monitors"] == "light"]
    return [line(row["ratio"], LIGHT_AT_MOST, f"light monitors: {row['model']}", form=".3f") for row in rows]


def _startup(found: dict[str, Rows]) -> list[list[str]]:
    rows = [row for row in found.get("startup", []) if row["what"] == "train.py --help"]
    return [line(row["seconds"], row["against"], "seconds of `train.py --help`") for row in rows]


def _replicas(found: dict[str, Rows]) -> list[list[str]]:
    lines = []
    for (device, width), target in REPLICAS_AT_LEAST.items():
        same = ("mlp", width, device)
        rows = [r for r in found.get("replicas", []) if (r["model"], r["width"], r.get("device")) == same]
        if rows:
            best = max(rows, key=lambda row: row["ratio"])
            on = "on CPUs" if device == "cpu" else "on a GPU"
            what = f"{best['replicas']} replicas of an MLP of width {width} over one by one, {on}"
            lines.append(line(best["ratio"], target, what, at_least=True))
    differences = [r["difference"] for r in found.get("equality", []) if isinstance(r["difference"], float)]
    if differences:
        what = f"largest difference of {len(differences)} pairs of model and norm, replica and run alone, float64"
        lines.append(line(max(differences), EQUAL_WITHIN, what, form=".0e"))
    return lines


def _families(found: dict[str, Rows]) -> list[list[str]]:
    lines = []
    for row in found.get("families", []):
        if target := FAMILIES_AT_LEAST.get(row["family"]):
            what = f"seeds and rates together over one by one: {row['family']}"
            lines.append(line(row["ratio"], target, what, at_least=True))
        if target := SECONDS_AT_MOST.get(row["family"]):
            fastest = min(row["together_s"], row["alone_s"])
            what = f"seconds of a whole run of {row['epochs']} epochs, {row['workers']} at a time: {row['family']}"
            lines.append(line(fastest, target, what, form=".1f"))
    return lines


def _evaluation(found: dict[str, Rows]) -> list[list[str]]:
    what = "evaluation over the forward pass alone: {model}, {what}"
    rows = found.get("evaluation", [])
    return [line(row["ratio"], EVALUATION_AT_MOST, what.format_map(row)) for row in rows]


def _sweep(found: dict[str, Rows]) -> list[list[str]]:
    rows = found.get("sweep", [])
    return [
        line(row["ratio"], SWEEP_AT_MOST if ", over " in row["what"] else 1, f"{row['what']}" + _limit(row))
        for row in rows
    ]


def _limit(row: dict) -> str:
    return "" if ", over " in row["what"] else f", over {row['against']:g} s"


def _leak(found: dict[str, Rows]) -> list[list[str]]:
    rows = found.get("leak", [])
    what = "KiB by which memory grows a step, steps 1,000 to 10,000"
    return [line(row["kib_a_step"], row["limit"], what, form=".3f") for row in rows]
