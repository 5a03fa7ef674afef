"""Are differences between norms the same in bfloat16? The first settings of the drawn bank are trained in it, at the
rates and seeds that float32's words rest on, beside the ledger's rows. Finished runs are not trained again.

python scripts/compare_precision.py 12 P06a P03c P08 P10b P10c
"""

import dataclasses
import sys
from pathlib import Path

from doc_tables import table

from normexp.claims.evidence.choose_rates import runs_at
from normexp.claims.evidence.disk_runs import DiskRuns, RunKey, estimated_seconds, launch_folder, train
from normexp.claims.evidence.plan import Known
from normexp.claims.evidence.sources import setting_of_runs
from normexp.claims.evidence.stored import StoredEvidence
from normexp.claims.judge.verdict import judge
from normexp.claims.spec.select import known_claims
from normexp.sweeps.cell import cells_of
from normexp.sweeps.grid import Estimates
from normexp.sweeps.places.place import Options

OUT = Path("outputs/precision/cache")


def main(first: int, names: list[str]) -> None:
    claims = [known_claims(name)[0][name] for name in names]
    specs, shown, pairs = {}, {}, []
    for claim in claims:
        known = Known(claim, StoredEvidence(), None)
        disk = DiskRuns(dataclasses.replace(claim, fixed=[*claim.fixed, "trainer.precision=bf16-mixed"]), OUT)
        for cell in list(claim.cells.values())[:first]:
            runs = runs_at(known.cell_runs(cell, claim.seed_range)[0], cell, known.measure, claim.rate)
            keys = [
                RunKey(cell.name, *key)
                for key in runs[["norm", "level", "seed", "lr"]].itertuples(index=False)
            ]
            specs |= {spec.folder: spec for spec in disk.missing(keys)}
            shown |= disk.names
            pairs.append((known, disk, cell, runs, keys))
    if specs:
        times = estimated_seconds(list(specs.values()), Estimates(each_norm=False))
        cells = cells_of(list(specs.values()), [shown[folder] for folder in specs], times)
        if status := train(cells, Options(), launch_folder(OUT), "scripts/compare_precision.py"):
            sys.exit(status)

    means: dict[tuple[str, str], tuple[float, float]] = {}
    what = {cell.name: cell.what for _, _, cell, _, _ in pairs}
    for claim in claims:
        judged: list[tuple] = []
        for known, disk, cell, runs, keys in (pair for pair in pairs if pair[0].claim is claim):
            half = disk.rows(keys)
            both = [
                setting_of_runs(cell, read, known.measure, known.examples(cell, read))
                for read in (runs, half)
            ]
            judged.append(tuple(both))
            for norm in runs["norm"].unique():
                means[cell.name, norm] = tuple(
                    t.loc[t["norm"] == norm, "test_accuracy"].mean() for t in (runs, half)
                )
        words = [judge([pair[i] for pair in judged], claim, drawn=True, asked=first) for i in (0, 1)]
        print(claim.id, *(f"{word['verdict']}: {word['holds']} of {word['n']}" for word in words), sep=" | ")
    norms = list(dict.fromkeys(norm for _, norm in means))
    rows = [
        (
            name,
            what[name],
            *(f"{100 * full:.1f} {100 * half:.1f}" for full, half in (means[name, norm] for norm in norms)),
        )
        for name in what
    ]
    print(table(["setting", "network", *norms], rows))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
