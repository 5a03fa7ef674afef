"""The source of a report's numbers, and what limits them."""

import pandas as pd

from normexp.report.study import Study, label
from normexp.runs.columns import OLDER

WHERE = ("outputs=", "run_dir=", "data.root=", "hydra.")  # arguments that say where and how, but not what


def source(study: Study) -> str:
    """Command, hash of the configuration and version, for every file and once for the page."""
    parts = [part for part in study.command.split(" ") if not part.startswith(WHERE)]
    command = " ".join(parts)
    return f"{command}  ·  configuration {study.digest}  ·  normexp {', '.join(study.versions)}"


def cautions(study: Study) -> list[str]:
    """The limits of the comparison, one sentence each."""
    found = []
    chosen = study.chosen
    seeds = chosen.groupby(["arm", *([study.x] if study.x else [])])["seed"].nunique()
    if seeds.min() < 2:
        found.append("Some points rest on a single seed and have no interval.")
    if seeds.min() != seeds.max():
        found.append(
            f"The points rest on unequal numbers of seeds, {seeds.min()} to {seeds.max()}: runs are missing."
        )
    levels = max(len(study.levels), 1)
    empty = len(study.arms) * levels - len(seeds)
    if empty:
        found.append(
            f"{empty} of {len(study.arms) * levels} combinations of arm and {label(study.x)} have no run."
        )
    if len(study.versions) > 1:
        found.append(f"The runs come from several versions of normexp: {', '.join(study.versions)}.")
    kinds = chosen["key"].map(lambda key: key[1]).unique()
    if len(kinds) > 1:
        found.append(
            f"The runs were computed in different ways ({'; '.join(kinds)}); only runs of one way are paired."
        )
    if before := int((study.summaries["recipe"] == OLDER).sum()):
        found.append(
            f"{before} {'run was' if before == 1 else 'runs were'} trained before models had recipes: what they left "
            "to the defaults is recipe=plain today."
        )
    lost = int((chosen["status"] == "diverged").sum())
    if lost:
        found.append(
            f"{lost} {'run' if lost == 1 else 'runs'} diverged. Means are over the others, so they flatter the arms "
            "that diverge."
        )
    return found


def all_runs(study: Study) -> pd.DataFrame:
    """Every finished run in a few columns, for the list at the end."""
    columns = ["run", "arm", *([study.x] if study.x else []), "lr", "seed", "status", study.metric]
    more = ["convergence.best", "steps", "seconds", "hash"]
    table = study.summaries[list(dict.fromkeys([*columns, *more]))].copy()
    table["hash"] = table["hash"].str[:8]
    return table.sort_values(["arm", *([study.x] if study.x else []), "seed"], key=_by_arm(study))


def _by_arm(study: Study):
    places = {arm: index for index, arm in enumerate(study.arms)}
    return lambda column: column.map(places) if column.name == "arm" else column
