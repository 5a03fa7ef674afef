"""Add the finished runs of a claim on this disk to docs/evidence/runs.parquet.

    python scripts/research/keep_runs.py S22 outputs/claims/cache
    python scripts/research/keep_runs.py N1 outputs/claims/cache docs/studies/noise middle:wasserstein_drift test_mixed
    python scripts/research/keep_runs.py N8 outputs/claims/cache docs/studies/noise --begun

The grid of the claim must be whole: what it asks for is in the evidence or in the folder. With --begun what there is
of it is kept and not marked, so that another machine goes on; the claim has no verdict until then. Each run of the
grid is marked as asked for by the claim's present protocol, and no other run is. A study's settings are those of its
bank of the same name, unless the claim draws them from another. Words behind it name more of what its monitors logged
for the study's page, at the first, the middle or the last measurement: the mean over layers.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from normexp.claims.evidence.disk import NUMBERS, DiskRuns
from normexp.claims.evidence.grid import RUN, runs_of
from normexp.claims.evidence.registry import evidence_tag
from normexp.claims.evidence.settings import failed_runs
from normexp.claims.evidence.table import EVIDENCE, RUNS
from normexp.claims.gather import gathered
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.find import documents_in, read_all
from normexp.config.folder import CONFIGS, allow_from, use_folder
from normexp.runs.read import read_metrics


def logged(folder: Path, word: str) -> float:
    """The mean over layers of a statistic, such as `middle:wasserstein_drift`; of one that was logged once its number.
    Raises a KeyError where nothing of the name was logged."""
    when, _, name = word.rpartition(":")
    rows = read_metrics([folder])
    curve = rows[rows["metric"].str.startswith(f"{name}/")].groupby("step")["value"].mean().sort_index()
    if curve.empty:
        raise KeyError(f"{folder} logged no {name}")
    return float(curve.iloc[{"first": 0, "middle": len(curve) // 2, "last": -1, "": -1}[when]])


def main(
    name: str, cache: Path, study: Path | None = None, statistics: Sequence[str] = (), *, begun: bool = False
) -> None:
    """Write the table anew."""
    if study:
        use_folder(study)
        allow_from([f"allow_targets={study.name}_study"])
    documents, _ = documents_in((study or CONFIGS) / "claims")
    drawn = name in (claims := read_all(documents)[0]) and claims[name].drawn_from  # it names its bank itself
    claim = claims[name] if drawn or not study else read_all(documents, load_bank(study.name))[0][name]
    bank = claim.bank if drawn or not study else study.name
    found = gathered(claim, EVIDENCE, DiskRuns(claim, cache))
    if len(lost := found.missing) and not begun:
        raise SystemExit(f"Error: {name}: {len(lost)} runs of its grid are neither kept nor in {cache}")
    grid, table = found.grid, found.table
    kept = pd.read_parquet(EVIDENCE / RUNS)
    types, key = kept.dtypes, pd.MultiIndex.from_frame
    kept = kept.astype({column: object for column, type_ in types.items() if type_ == "category"})
    runs = runs_of(grid, table)
    runs = runs[runs["status"].notna()]  # finished ones
    new = runs[~key(runs[RUN]).isin(key(kept[RUN]))].drop_duplicates(RUN)
    for setting, rows in new.groupby("setting"):
        new.loc[rows.index, "failed"] = failed_runs(rows, claim.cells[str(setting)])
    new = new.assign(
        run=range(int(kept["run"].max()) + 1, int(kept["run"].max()) + 1 + len(new)),
        bank=bank,
        mode="alone",
    )
    for word in statistics if len(new) else ():
        column = f"logged/{word}/" + ("*" if ":" in word else "accuracy")
        new[column] = [logged(Path(folder), word) for folder in new["folder"]]
    more = [column for column in map(str, new) if column.startswith(("logged/", "steps_to_"))]
    later = [
        name for name in (*NUMBERS, "device", *more) if name not in kept and name in new
    ]  # older runs have none
    all_runs = pd.concat([kept, new.reindex(columns=[*kept.columns, *later])], ignore_index=True)
    asked, tag = key(all_runs[RUN]).isin(key(grid[RUN])) & (not begun), evidence_tag(claim)
    marks = [set(str(text).split()) - {"nan", tag} for text in all_runs["asked_by"]]
    all_runs["asked_by"] = [
        " ".join(sorted(mark | ({tag} if here else set()))) for mark, here in zip(marks, asked, strict=True)
    ]
    all_runs["failed"] = all_runs["failed"].astype(bool)
    kinds = {column: "category" if type_ == "category" else type_ for column, type_ in types.items()}
    all_runs.astype(kinds).to_parquet(EVIDENCE / RUNS, index=False, compression="zstd")
    print(f"{EVIDENCE / RUNS}: {len(new)} runs more")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", metavar="claim")
    parser.add_argument("cache", type=Path)
    parser.add_argument("study", type=Path, nargs="?")
    parser.add_argument("statistics", nargs="*")
    parser.add_argument("--begun", action="store_true")
    main(**vars(parser.parse_args()))
