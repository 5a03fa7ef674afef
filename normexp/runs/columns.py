"""The columns of the table of runs: what each run is, what came out of it, and which columns tell runs apart."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from normexp.config.folder import lies_in
from normexp.config.identity import network_label
from normexp.config.schema import NOT_IDENTITY
from normexp.runs.summary import failed, flat, learning_rate

if TYPE_CHECKING:
    import pandas as pd

RESULTS = (
    "run", "status", "hash", "fingerprint", "steps", "epochs", "seconds", "parameters", "command", "finished",
)  # fmt: skip
DERIVED = ("failed", "chance_loss", "samples", "numerics")
RESULT_GROUPS = ("convergence", "execution", "versions")  # columns such as `convergence.auc`
ECHOES = {"data.batch_size": "batch_size", "data.seed": "seed", "optimizer.lr": "lr"}  # one value twice
NETWORK = ("model", "model.name", "model.path")
OLDER = "older"  # the recipe of a run that is older than recipes


def flatten(summary: Mapping[str, Any], run: str) -> dict[str, Any]:
    """A row of the table of summaries.

    Columns: `run` (folder), `status`, `hash`; the chosen names (`model`, `norm`, ...); each key of the configuration
    (`batch_size`, `norm.correction`, `model.depth`), with the optimizer's rate as `lr`; final metrics
    (`test/accuracy`); `convergence.*`, `execution.*`, `versions.*`; `steps`, `epochs`, `samples` (null in older runs),
    `seconds`, `parameters`, `command`, `finished`; `processes` (that share a batch); `numerics` (runs of one
    configuration have equal bits where it is equal); `failed` (it diverged, or its final loss is above ten times
    `chance_loss`).
    """
    choices = {name: choice for name, choice in summary["choices"].items() if "/" not in name}
    # Omit the many keys `monitor.*`; the column `monitor` names the choice.
    config = {key: value for key, value in summary["config"].items() if key not in ("monitor", "replicas")}
    row = {"run": run, "status": summary["status"], "hash": summary["hash"], "recipe": OLDER, **choices}
    row |= flat(config, targets=True) | {"lr": learning_rate(config)} | summary["metrics"]
    for group in RESULT_GROUPS:
        row |= {f"{group}.{key}": value for key, value in summary[group].items()}
    row |= {name: summary.get(name) for name in RESULTS if name not in row}
    row["processes"] = summary["execution"].get("devices", 1)
    row["samples"] = summary.get("samples")
    row["numerics"] = summary.get("numerics", 1)
    return row | {"chance_loss": summary.get("chance_loss"), "failed": failed(summary)}


def repeating(summaries: "pd.DataFrame") -> list[str]:
    """The columns that say again what another says in every row: `data.batch_size`, and the class of a choice."""
    names = list(summaries.columns.astype(str))
    echoes = [
        echo
        for echo, name in ECHOES.items()
        if echo in names and (summaries[echo].isna() | (summaries[echo] == summaries[name])).all()
    ]
    targets = [name for name in names if name.endswith("._target_")]
    return echoes + [name for name in targets if decided_by(summaries, name, name.split(".")[0])]


def decided_by(summaries: "pd.DataFrame", name: str, other: str) -> bool:
    """Whether rows with an equal value of the column `other` have one value of the column `name`."""
    if other not in summaries:
        return len(_distinct(summaries[name])) == 1
    return all(len(_distinct(group)) == 1 for _, group in summaries.groupby(other, dropna=False)[name])


def identity_columns(summaries: "pd.DataFrame") -> list[str]:
    """The columns that say what a run is: choices, configuration and content of the data, without places, hardware."""

    def counts(name: str) -> bool:
        result = name in RESULTS + DERIVED and name != "fingerprint"
        result = result or "/" in name or lies_in(name, RESULT_GROUPS)
        # trainers are hardware, their options count
        return not (result or lies_in(name, NOT_IDENTITY) or name == "trainer")

    return [name for name in summaries.columns.astype(str) if counts(name)]


def varying(summaries: "pd.DataFrame") -> list[str]:
    """The columns of `identity_columns` in which the rows differ."""
    names = []
    for name in identity_columns(summaries):
        column = summaries[name]
        if name == "max_epochs" and "max_steps" in summaries:
            column = column[summaries["max_steps"].isna()]  # elsewhere max_steps decides, and it is ignored
        if len(_distinct(column)) > 1:
            names.append(name)
    return names


def _distinct(column: "pd.Series") -> set[Any]:
    """The values of a column. None and NaN are one, 1 and 1.0 too, but not 1 and True."""
    return {None if value is None or value != value else (isinstance(value, bool), value) for value in column}


def networks(summaries: "pd.DataFrame") -> "pd.Series":
    """The model of each run, with the network of a library or of a user, which a folder does not name."""
    choices = summaries.reindex(columns=list(NETWORK)).astype(object)
    return choices.where(choices.notna(), None).apply(lambda row: network_label(*row), axis=1)
