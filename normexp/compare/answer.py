"""The answer of a comparison: as text, as a table, and as a page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.compare.judged import OPEN, Look
from normexp.compare.sentences import failed_runs, finding, in_steps, partners
from normexp.runs.files import write_json

DESIGN = "design.json"


@dataclass(frozen=True)
class Answer:
    """What a comparison says: `print(answer)`, `answer.table`, `answer.look.differences`, `answer.page("folder")`.

    Attributes:
        runs: those that count, a row each.
        ended: why a training ended.
        facts, notes, tables: what else the page's head, its section of failures and its folder hold.
    """

    look: Look
    runs: pd.DataFrame
    notes: Sequence[str] = ()
    ended: str = ""
    facts: Sequence[str] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def __str__(self) -> str:
        failures = [failed_runs(self.look), partners(self.look)]
        ended = f"It ended because {self.ended}." if self.ended else ""
        return "\n".join(filter(None, [*finding(self.look), *failures, *self.notes, ended]))

    @property
    def table(self) -> pd.DataFrame:
        """A row for each arm in each setting: its mean and its difference, both with intervals; margin and word."""
        look, design = self.look, self.look.design
        metric, judged = design.metric, {diff.arm.name: diff for diff in look.differences}
        rows = []
        for arm in look.arms:
            row = {
                "arm": arm.norm,
                design.level_name: arm.level,
                f"{metric.name}{metric.unit and f', {metric.unit}'}": metric.show(arm.mean),
                "95% interval": metric.range(arm.interval),
                "runs": arm.runs,
                "failed": arm.failed,
            }
            if diff := judged.get(arm.name):
                row |= {
                    f"minus {design.baseline}": metric.show(diff.effect, sign=True),
                    "interval": metric.range(diff.interval, sign=True),
                    "relative": f"{100 * diff.relative:+.1f}%".replace("-", "−").replace("+nan%", ""),
                    "pairs": str(diff.seeds) if diff.paired else "not paired",
                    "margin": metric.show(diff.margin),
                    "p, adjusted": f"{diff.p:.2g}",
                    "verdict": diff.word,
                    "more seeds": str(diff.more) if diff.word == OPEN and diff.more is not None else "",
                    "steps": in_steps(diff, design).partition(" in ")[2] if diff.steps else "",
                }
            rows.append(row)
        table = pd.DataFrame(rows).astype(object).fillna("")
        return table.loc[:, (table.astype(str) != "").any()]

    def page(self, out: str | Path, made_by: str = "normexp.compare") -> Path:
        """Write a page with its figure, tables as csv and LaTeX, and the paragraph for a paper. Returns its path."""
        from normexp.compare.page import write  # matplotlib takes a while to import

        return write(self, Path(out), made_by)


def own_folder(out: Path, name: str, compared: Any) -> Path:
    """out/NAME, or out/NAME-2, ... where that has the page of another comparison. It notes whose page it has."""
    compared, number, folder = json.loads(json.dumps(compared)), 1, out / name
    while (folder / DESIGN).exists() and not agree(json.loads((folder / DESIGN).read_text()), compared):
        number += 1
        folder = out / f"{name}-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / DESIGN, compared)
    return folder


def agree(noted: Any, now: Any) -> bool:
    """Whether two notes say the same by every key that both have, as older versions noted less (and those of results
    by position)."""
    if not isinstance(now, dict):
        return noted == now
    noted = noted if isinstance(noted, dict) else dict(zip(now, noted, strict=False))
    return all(agree(noted[key], now[key]) for key in noted.keys() & now.keys())
