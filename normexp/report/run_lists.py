"""Lists of the runs behind a report: all finished runs, and those that diverged or did not finish."""

from typing import Any

import pandas as pd

from normexp.counted import counted
from normexp.report.page import list_html
from normexp.report.provenance import all_runs
from normexp.report.study import Study, label
from normexp.report.unfinished_runs import open_runs


def runs_text(study: Study) -> str:
    """How many runs completed, diverged and are missing, as a sentence."""
    counts = study.summaries["status"].value_counts()
    completed, diverged = (counts.get(status, 0) for status in ("completed", "diverged"))
    text = f"{counted(completed, 'run')} completed, {diverged} diverged (a loss not finite)"
    missing = len(open_runs(study.path, set(study.summaries["hash"])))
    return f"{text}, {missing} have no result." if missing else f"{text}."


def lists(study: Study) -> list[dict[str, Any]]:
    """The lists behind that sentence, each with whether it is open at first."""
    found = []
    if rows := open_runs(study.path, set(study.summaries["hash"])):
        found.append(
            {
                "title": f"{counted(len(rows), 'run')} without a result",
                "html": list_html(pd.DataFrame(rows)),
                "open": any(row["state"] == "failed" for row in rows),
            }
        )
    runs = all_runs(study)
    diverged = study.summaries[study.summaries["status"] == "diverged"]
    if len(diverged):
        columns = ["run", "arm", "seed", "lr", "convergence.divergence_step", "convergence.best"]
        found.append(
            {
                "title": counted(len(diverged), "diverged run"),
                "html": list_html(in_words(diverged[columns])),
                "open": len(diverged) <= 20,
            }
        )
    title = f"All {counted(len(runs), 'finished run')}"
    return [*found, {"title": title, "html": list_html(in_words(runs)), "open": False}]


def in_words(runs: pd.DataFrame) -> pd.DataFrame:
    """The columns with readable names."""
    names = {
        "convergence.best": "best validation accuracy",
        "convergence.divergence_step": "diverged at step",
    }
    return runs.rename(columns=lambda name: names.get(name, label(name)))
