"""The summary of a run as one flat row. Some columns say what the run is, others what its results are."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from normexp.config.identity import with_later_options
from normexp.config.settings import NOT_IDENTITY

if TYPE_CHECKING:
    import pandas as pd

RESULTS = (
    "run", "status", "hash", "fingerprint", "steps", "epochs", "seconds", "parameters", "command", "finished",
)  # fmt: skip
DERIVED = ("failed", "chance_loss", "samples", "code")
ECHOES = {"data.batch_size": "batch_size", "data.seed": "seed", "optimizer.lr": "lr"}  # the same value twice
RESULT_GROUPS = ("convergence", "execution", "versions")  # columns such as `convergence.auc`
MOST_LOSS = 10.0  # times the loss of guessing
# Chosen on the runs behind docs/recipes.md. Their chance loss is 2.3 nats, and good runs rise by at most 0.16 of it.
NEAR_CHANCE = (
    0.8  # of the loss of guessing: with a higher final training loss, a run has learned almost nothing
)
OLDER = "older"  # recipe of a run that is older than recipes


def flatten(summary: Mapping[str, Any], run: str) -> dict[str, Any]:
    """A row of the table of summaries.

    Columns: `run` (folder), `status`, `hash`; the chosen names (`model`, `norm`, ...); each key of the configuration
    (`batch_size`, `norm.correction`, `model.depth`); final metrics (`test/accuracy`); `convergence.*`, `execution.*`,
    `versions.*`; `steps`, `epochs`, `samples` (null in older runs), `seconds`, `parameters`, `command`, `finished`;
    `processes` (that share a batch); `code` (a digest of what computed it); `failed` (it diverged, or its final loss is
    above ten times `chance_loss`).
    """
    choices = {"recipe": OLDER} | {
        name: choice for name, choice in summary["choices"].items() if "/" not in name
    }
    # Omit the many keys `monitor.*`; the column `monitor` names the choice.
    config = {
        key: with_later_options(value) if isinstance(value, Mapping) else value
        for key, value in summary["config"].items()
        if key != "monitor"
    }
    row = {"run": run, "status": summary["status"], "hash": summary["hash"], **choices}
    row |= flat(config, targets=True) | summary["metrics"]
    for group in RESULT_GROUPS:
        row |= {f"{group}.{key}": value for key, value in summary[group].items()}
    row |= {name: summary[name] for name in RESULTS if name not in row}
    row["processes"] = summary["execution"].get("devices", 1)
    row["samples"] = summary.get("samples")
    code = json.dumps(summary.get("sources"), sort_keys=True)
    row["code"] = hashlib.sha256(code.encode()).hexdigest()[:12]
    return row | {"chance_loss": summary.get("chance_loss"), "failed": failed(summary)}


def failed(summary: Mapping[str, Any]) -> bool:
    """Whether a run failed: it diverged, or its final training loss is above ten times that of guessing. Such a run has
    no place in a mean over runs that learned; it is counted."""
    chance, loss = summary.get("chance_loss"), summary["metrics"].get("train/loss")
    blown_up = chance is not None and loss is not None and loss > MOST_LOSS * chance
    return summary["status"] == "diverged" or blown_up


def flat(config: Mapping[str, Any], prefix: str = "", *, targets: bool = False) -> dict[str, Any]:
    """Nested keys joined by dots, lists as JSON. Of Hydra's own keys only `_target_` is kept, where asked for."""
    row: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            row |= flat(value, f"{prefix}{key}.", targets=targets)
        elif not key.startswith("_") or (targets and key == "_target_"):
            row[f"{prefix}{key}"] = json.dumps(value) if isinstance(value, (list, tuple)) else value
    return row


def repeating(summaries: "pd.DataFrame") -> list[str]:
    """The columns that say again what another says in every row: `data.batch_size`, and the class of a choice."""
    names = list(summaries.columns.astype(str))
    found = [
        echo for echo, name in ECHOES.items()
        if echo in names and (summaries[echo].isna() | (summaries[echo] == summaries[name])).all()
    ]  # fmt: skip
    targets = [name for name in names if name.endswith("._target_")]
    return found + [name for name in targets if decided_by(summaries, name, name.split(".")[0])]


def decided_by(summaries: "pd.DataFrame", name: str, other: str) -> bool:
    """Whether rows with an equal value of the column `other` have one value of the column `name`."""
    if other not in summaries:
        return len(_distinct(summaries[name])) == 1
    return all(len(_distinct(own)) == 1 for _, own in summaries.groupby(other, dropna=False)[name])


def identity_columns(summaries: "pd.DataFrame") -> list[str]:
    """The columns that say what a run is: choices, configuration and content of the data, without places, hardware."""

    def counts(name: str) -> bool:
        parts = name.split(".")
        paths = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        result = (
            (name in RESULTS + DERIVED and name != "fingerprint") or "/" in name or parts[0] in RESULT_GROUPS
        )
        return not (
            result or paths & NOT_IDENTITY or name == "trainer"
        )  # trainers are hardware, their options count

    return [name for name in summaries.columns.astype(str) if counts(name)]


def varying(summaries: "pd.DataFrame") -> list[str]:
    """The columns of `identity_columns` in which the rows differ."""
    found = []
    for name in identity_columns(summaries):
        column = summaries[name]
        if name == "max_epochs" and "max_steps" in summaries:
            column = column[summaries["max_steps"].isna()]  # elsewhere max_steps decides, and it is ignored
        if len(_distinct(column)) > 1:
            found.append(name)
    return found


def _distinct(column: "pd.Series") -> set[Any]:
    """The values of a column. None and NaN are one, 1 and 1.0 too, but not 1 and True."""
    return {None if value is None or value != value else (isinstance(value, bool), value) for value in column}
