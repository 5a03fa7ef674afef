"""For TensorBoard: one run per arm with the mean over its seeds, so 80 runs become four."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np

from normexp.report.statistics import curves, of_all_runs
from normexp.report.study import Study, label
from normexp.runs.read import FIRST

FOLDER = "means"
SHOWN = FIRST | {"gradient_norm/network": "gradient_norm/network (log10)"}  # its pages have linear axes
MOST_MEANS = 36  # TensorBoard starts with no run ticked above 40


def write_mean_runs(study: Study, out: Path) -> Path | None:
    """Write a run for each arm and level of a study with several seeds into `out`/means, in place of older ones.
    Returns that folder, or None if there is no such arm, or TensorBoard is not installed."""
    try:
        from tensorboard.summary import Writer
    except ImportError:
        return None
    folder = out / FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    rows, levels = study.metrics, study.some_levels(max(MOST_MEANS // len(study.arms), 1))
    rows = rows[~rows["failed"] & rows["metric"].isin([*SHOWN]) & rows["level"].isin(levels)]
    digits = max(len(f"{int(level)}") for level in levels)  # TensorBoard sorts names as text
    for (arm, level), group in rows.groupby(["arm", "level"], observed=True):
        if group["seed"].nunique() < 2:
            continue
        zeros = "0" * (digits - len(f"{int(level)}"))
        above = f"{label(study.x)} {zeros}{level:g}" if study.x else ""
        writer = Writer(str(folder / in_path(above) / in_path(arm)))
        for metric, tag in SHOWN.items():
            log = tag.endswith("(log10)")
            curve = curves(group[group["metric"] == metric].assign(all=""), ["all"], "step", log=log)
            for step, mean in of_all_runs(curve, ["all"])[["step", "mean"]].itertuples(index=False):
                writer.add_scalar(tag, float(np.log10(mean) if log else mean), int(step))
        writer.close()
    return folder if folder.exists() else None


def in_path(name: str) -> str:
    """A name as the name of one folder."""
    return re.sub(r"[^\w ,.=+-]+", "-", name.replace(" · ", ", "))


def look_at(means: Path, study: Study) -> list[str]:
    """The lines that start TensorBoard on them, with the address that gives every run the color of its norm. Where a
    study has levels, each mean keeps a color of its own."""
    color = ""
    if not study.x:
        norms = {arm.split(" · ")[0] for arm in study.arms}
        color = f"runColorGroup=regex:({'|'.join(sorted(norms, key=lambda norm: (-len(norm), norm)))})&"
    return [
        f"look:   tensorboard --logdir {shlex.quote(str(means))}",
        f"        then open http://localhost:6006/?{color}smoothing=0 (replace 6006 if you pass --port)",
    ]
