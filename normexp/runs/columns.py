"""The summary of a run as one flat row. Some columns say what the run is, others what its results are."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from normexp.config.settings import shown

if TYPE_CHECKING:
    import pandas as pd

RESULTS = (
    "run",
    "status",
    "hash",
    "fingerprint",
    "steps",
    "epochs",
    "seconds",
    "parameters",
    "command",
    "finished",
)
ECHOES = {"data.batch_size": "batch_size", "data.seed": "seed", "optimizer.lr": "lr"}  # the same value twice
RESULT_GROUPS = ("convergence", "execution", "versions")  # columns such as `convergence.auc`
OLDER = "older"  # recipe of a run that is older than recipes


def flatten(summary: Mapping[str, Any], run: str) -> dict[str, Any]:
    """A row of the table of summaries.

    Columns: `run` (folder), `status`, `hash`; the chosen names (`model`, `norm`, ...); each key of the configuration
    (`batch_size`, `norm.correction`, `model.depth`); final metrics (`test/accuracy`); `convergence.*`, `execution.*`,
    `versions.*`; `steps`, `epochs`, `seconds`, `parameters`, `command`, `finished`.
    """
    choices = {"recipe": OLDER} | {
        name: choice for name, choice in summary["choices"].items() if "/" not in name
    }
    # Omit the many keys `monitor.*`; the column `monitor` names the choice.
    config = {key: value for key, value in summary["config"].items() if key != "monitor"}
    row = {"run": run, "status": summary["status"], "hash": summary["hash"], **choices, **flat(config)}
    for echo, name in ECHOES.items():
        if echo in row and row[echo] == row[name]:
            del row[echo]
    row |= summary["metrics"]
    for group in RESULT_GROUPS:
        row |= {f"{group}.{key}": value for key, value in summary[group].items()}
    return row | {name: summary[name] for name in RESULTS if name not in row}


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys joined by dots, lists as JSON. Hydra's own keys are omitted."""
    row: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            row |= flat(value, f"{prefix}{key}.")
        # Omit Hydra's `_target_` and `_partial_`; the chosen name says the same.
        elif not key.startswith("_"):
            row[f"{prefix}{key}"] = json.dumps(value) if isinstance(value, (list, tuple)) else value
    return row


def config_columns(summaries: "pd.DataFrame") -> list[str]:
    """The columns that say what a run is: choices and configuration, without place and hardware."""
    return [
        name
        for name in summaries.columns.astype(str)
        if name not in RESULTS and "/" not in name and name.split(".")[0] not in RESULT_GROUPS and shown(name)
    ]


def varying(summaries: "pd.DataFrame") -> list[str]:
    """The columns of `config_columns` in which the rows differ."""
    return [name for name in config_columns(summaries) if summaries[name].nunique(dropna=False) > 1]
