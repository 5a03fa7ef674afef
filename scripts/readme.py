"""Write the numbers of README.md between their markers, from docs/data/readme.json.

`python scripts/readme.py` writes them. `--study FOLDER --walk FOLDER` first reads them from finished runs: the study
that README.md names, with its report, and the folder in which its first verdict was asked for.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from doc_tables import DATA, DOCS, ROOT, filled

sys.path.insert(0, str(ROOT))  # so that it also runs where the package is not installed

README, RECORD, FIGURE = ROOT / "README.md", DATA / "readme.json", DOCS / "images" / "batch_size.png"
BASELINE = "none"
BANK_TABLE = "<!-- numbers: bank -->"


def read_study(folder: Path) -> dict[str, Any]:
    """The results of the study: its sentence, its table and every value behind them. Copies its figure."""
    from normexp.report.finding import finding
    from normexp.report.study import open_study
    from normexp.report.tables import comparison, markdown

    study = open_study(folder)
    table = comparison(study, BASELINE)
    shutil.copy(folder / "report" / "figures" / "final.png", FIGURE)
    values = study.chosen[["arm", study.x, "seed", study.metric]].values.tolist()
    return {
        "command": re.sub(r"\S*/train\.py", "train.py", study.command.partition(" outputs=")[0]),
        "finding": finding(study, table),
        "table": markdown(study, table).partition("\n\nPaired difference")[0],
        "values": values,
    }


def read_walk(folder: Path) -> dict[str, Any]:
    """The results of the claim in README.md."""
    from normexp.claims.judge.plain_words import paragraph

    (path,) = folder.glob("outputs/claims/*/verdict.json")
    verdict = json.loads(path.read_text())
    kept = ("verdict", "effect", "interval", "n_seeds", "seconds")
    return {"text": paragraph(verdict), **{name: verdict[name] for name in kept}}


def blocks(record: dict[str, Any]) -> dict[str, str]:
    """Marker -> what stands there. The table of the bank is the first of docs/bank.md."""
    bank = (DOCS / "bank.md").read_text()
    known = {"bank": bank[bank.index("| setting |") :].partition("\n\n")[0]}
    return {
        # until findings over drawn settings replace it
        **(known if BANK_TABLE in README.read_text() else {}),
        "finding": record["study"]["finding"],
        "table": record["study"]["table"],
        "walk": f"```\n{record['walk']['text']}\n```",
    }


def main() -> None:
    """Read what was asked for, then write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", type=Path, help="the study's folder, with its report")
    parser.add_argument("--walk", type=Path, help="the folder of the first verdict")
    given = parser.parse_args()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if given.study:
        record["study"] = read_study(given.study)
    if given.walk:
        record["walk"] = read_walk(given.walk)
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    README.write_text(filled(README.read_text(), blocks(record)))


if __name__ == "__main__":
    main()
