"""Forty faults of public threads, rebuilt in a few lines: does `normexp check` name them, does its fix mend them?

    python scripts/research/check_faults.py         # all; writes docs/data/check_faults.json
    python scripts/research/check_faults.py 4741    # these threads alone, with what the check says; writes nothing

The finding and the layer that must be named stand with each case. A fault is found if that finding names that layer,
and mended if the printed fix was applied, the finding is gone, and no error and no warning is new. A fix of code is
executed as it is printed; a fix in words is done by `by_hand`.
"""

import fnmatch
import json
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import torch
from faults_of_structure import FAULTS
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

import normexp
from normexp.check.result import Finding

FILE = Path(__file__).parents[2] / "docs" / "data" / "check_faults.json"
NAMES = {"normexp": normexp, "torch": torch, "nn": nn, "F": F, "DataLoader": DataLoader}


def names_layer(finding: Finding, layer: str) -> bool:
    """Whether a finding names a layer, or one of those that match: `[0-9]*`."""
    return any(fnmatch.fnmatchcase(path, layer) for path in finding.layers)


def tried(case: SimpleNamespace, show: bool) -> dict:
    """What the check says of a case before and after its fix."""
    torch.manual_seed(0)
    model, data, options = case.build()
    begun = time.process_time()
    before = normexp.check(model, data, **options)
    seconds = time.process_time() - begun
    findings = [f for f in before.findings if f.id == case.id and names_layer(f, case.layer)]
    row = {"thread": case.thread, "fault": case.words, "finding": case.id, "layer": case.layer}
    row |= {
        "found": bool(findings),
        "severity": findings[0].severity if findings else "",
        "sentence": findings[0].sentence if findings else "",
    }
    row |= {"mended": False, "seconds": round(seconds, 2)}
    if show:
        print(before, before.not_checked.get(case.id, ""), sep="\n")
    if not findings:
        return row
    names = NAMES | options | {"model": model, "loader": data, "result": before}
    names["averaged_model"] = options.get("averaged")
    row |= {"fix": findings[0].fix, "by": "words" if case.by_hand else "code"}
    try:
        if case.by_hand:
            case.by_hand(names)
        else:
            exec(findings[0].fix, names)
        after = normexp.check(names["model"], names["loader"], **{key: names[key] for key in options})
    except Exception as error:
        return row | {"after": f"{type(error).__name__}: {error}"}
    old = {(f.id, f.severity) for f in before.findings}
    gone = not any(f.id == case.id and names_layer(f, case.layer) for f in after.findings)
    new = [f.line() for f in after.findings if f.severity != "note" and (f.id, f.severity) not in old]
    return row | {"mended": gone and not new, "after": "; ".join(new) if gone else "found again"}


def main(threads: list[str]) -> None:
    warnings.simplefilter("ignore")
    cases = [case for case in FAULTS if not threads or any(case.thread.endswith(f"#{w}") for w in threads)]
    table = [tried(case, bool(threads)) for case in cases]
    for row in table:
        shown = ("found" if row["found"] else "MISSED", "mended" if row["mended"] else "not mended")
        print(*shown, row["finding"], row["thread"], row.get("after", ""))
    found, mended = (sum(row[key] for row in table) for key in ("found", "mended"))
    print(f"{len(table)} faults: {found} found at the right layer, {mended} mended by the printed fix")
    if len(cases) == len(FAULTS):
        FILE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
