"""The summary of a run: `summary.json`, written last, and whole or not at all, and a flat row of a table, whose columns
say what the run is and what its results are. A summary that is read may come from a stranger, and tables, reports and
screens show it, so each of its values is checked.
"""

import hashlib
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp import NUMERICS
from normexp.config.folder import lies_in
from normexp.config.identity import OLDER as OLDER
from normexp.config.identity import with_later_options
from normexp.config.settings import GROUPS, NOT_IDENTITY, ROOT, check_plain, check_type
from normexp.runs.files import write_json

if TYPE_CHECKING:
    import pandas as pd

RESULTS = (
    "run", "status", "hash", "fingerprint", "steps", "epochs", "seconds", "parameters", "command", "finished",
)  # fmt: skip
DERIVED = ("failed", "chance_loss", "samples", "numerics")
ECHOES = {"data.batch_size": "batch_size", "data.seed": "seed", "optimizer.lr": "lr"}  # the same value twice
RESULT_GROUPS = ("convergence", "execution", "versions")  # columns such as `convergence.auc`
MOST_LOSS = 10.0  # times the loss of guessing
# Chosen on the runs behind docs/recipes.md. Their chance loss is 2.3 nats, and good runs rise by at most 0.16 of it.
# of the loss of guessing: with a higher final training loss, a run has learned almost nothing
NEAR_CHANCE = 0.8


def flatten(summary: Mapping[str, Any], run: str) -> dict[str, Any]:
    """A row of the table of summaries.

    Columns: `run` (folder), `status`, `hash`; the chosen names (`model`, `norm`, ...); each key of the configuration
    (`batch_size`, `norm.correction`, `model.depth`), with the optimizer's rate as `lr`; final metrics
    (`test/accuracy`); `convergence.*`, `execution.*`, `versions.*`; `steps`, `epochs`, `samples` (null in older runs),
    `seconds`, `parameters`, `command`, `finished`; `processes` (that share a batch); `numerics` (null in older
    runs); `failed` (it diverged, or its final loss is above ten times `chance_loss`).
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
    row |= flat(config, targets=True) | {"lr": learning_rate(config)} | summary["metrics"]
    for group in RESULT_GROUPS:
        row |= {f"{group}.{key}": value for key, value in summary[group].items()}
    row |= {name: summary[name] for name in RESULTS if name not in row}
    row["processes"] = summary["execution"].get("devices", 1)
    row["samples"] = summary.get("samples")
    row["numerics"] = summary.get("numerics")
    return row | {"chance_loss": summary.get("chance_loss"), "failed": failed(summary)}


def learning_rate(config: Mapping[str, Any]) -> float:
    """The rate that the optimizer is given: `lr`, unless `optimizer.lr` was set on its own."""
    own = config.get("optimizer", {}).get("lr")
    rate: Any = config.get("lr") if own is None else own
    return rate


def failed(summary: Mapping[str, Any]) -> bool:
    """Whether a run failed: it diverged, or its final training loss is above ten times that of guessing. Such a run has
    no place in a mean over runs that learned; it is counted."""
    chance, loss = summary.get("chance_loss"), summary["metrics"].get("train/loss")
    blown_up = chance is not None and loss is not None and loss > MOST_LOSS * chance
    return summary["status"] == "diverged" or blown_up


def other_numerics(summary: Mapping[str, Any]) -> str:
    """`numerics=1, not 2` for a run of a version that computes other bits; empty if it is not, or does not say."""
    found = summary.get("numerics", NUMERICS)
    return "" if found == NUMERICS else f"numerics={found}, not {NUMERICS}"


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
    echoes = [
        echo for echo, name in ECHOES.items()
        if echo in names and (summaries[echo].isna() | (summaries[echo] == summaries[name])).all()
    ]  # fmt: skip
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


SUMMARY, BESIDE = "summary.json", ("metrics.csv", "test_examples.npz")
MOST_BYTES = 2**24
NEEDED = {"choices", "config", "metrics", *RESULT_GROUPS, *RESULTS} - {"run"}
STATUSES = ("completed", "diverged")
KINDS: dict[str, Any] = {
    "hash": str, "fingerprint": str, "command": str, "finished": str, "steps": int, "parameters": int,
    "epochs": float, "seconds": float, "choices": dict, "config": dict, "metrics": dict, "convergence": dict,
    "execution": dict, "versions": dict,
}  # fmt: skip
# Runs of earlier versions lack these.
LATER: dict[str, Any] = {
    "recipe_changes": list[str] | None, "chance_loss": float | None, "numerics": int, "checkout": dict,
    "first": dict, "failed": bool, "not_finite": list[str],
    "samples": int, "digests": dict,
}  # fmt: skip
# The types of values in these mappings. Choices are names of files. Numbers may be unknown.
VALUES: dict[str, Any] = {
    "choices": str | None, "metrics": float | None, "convergence": float | None, "versions": str | None,
    "execution": str | float | bool | None, "first": str | bool | None,
    "digests": str,
}  # fmt: skip
# Every version's runs have these choices and settings.
INSIDE = {
    "choices": ("model", "norm", "data"),
    "metrics": ("val/accuracy", "test/accuracy"),
    "config": ("seed", "batch_size", "lr", "max_epochs", "max_steps", "accuracies", "name", "outputs"),
}


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write `summary.json` last and atomically: its presence means that the run is complete.

    Raises ValueError for an unknown status. Numbers that are not finite become null, because JSON has no NaN; the
    status tells of them. `digests` of it and of the files beside it, which `summary` gets too, tell who reads it later
    that none was changed.
    """
    if summary["status"] not in STATUSES:
        raise ValueError(f"status={summary['status']}: choose from {', '.join(STATUSES)}")
    summary["digests"] = digests(folder, _finite(summary))
    write_json(folder / SUMMARY, _finite(summary))


def digests(folder: Path, summary: dict[str, Any]) -> dict[str, str]:
    """SHA-256 of the files from which a finished run is read, and of the summary's other keys."""
    hashes = {
        name: hashlib.sha256((folder / name).read_bytes()) for name in BESIDE if (folder / name).exists()
    }
    rest = {key: value for key, value in summary.items() if key != "digests"}
    hashes[SUMMARY] = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    return {name: digest.hexdigest() for name, digest in hashes.items()}


def read_summary(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished run; None if there is none.

    Raises ValueError with one line for a file that cannot be read, was cut, or was written by another version.
    """
    path = Path(folder) / SUMMARY
    try:
        summary = json.loads(_text(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); {remedy(path.parent)}") from None
    except RecursionError:
        raise damaged(path, "nested without end") from None
    except ValueError as error:  # no JSON, or no text
        raise damaged(path, f"no valid JSON: {error}") from None
    if not isinstance(summary, dict) or not summary:
        raise damaged(path, "holds no summary of a run")
    lacking = sorted(NEEDED - set(summary))
    if lacking:
        versions = summary.get("versions")
        version = versions.get("normexp") if isinstance(versions, dict) else None
        version = version if isinstance(version, str) and len(version) < 20 else "of unknown number"
        raise ValueError(
            f"{path}: written by normexp {version}, lacks {', '.join(lacking)}; read it with that version, or "
            f"{remedy(path.parent)}"
        )
    try:
        check_summary(summary)
    except ValueError as error:
        raise damaged(path, str(error)) from None
    return summary


def _text(path: Path) -> str:
    """The content of a plain file of sane size. Reading a pipe would wait forever, and a device has no end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(0, "is no file")
    if status.st_size > MOST_BYTES:
        raise OSError(0, f"is larger than {MOST_BYTES // 2**20} MiB")
    return path.read_text()


def finished_summary(folder: Path) -> dict[str, Any]:
    """The summary of a finished run. Raises ValueError if the run is not finished."""
    summary = read_summary(folder)
    if summary is None:
        raise ValueError(f"{folder}: holds no finished run; run it again")
    return summary


def remedy(folder: Path) -> str:
    """The advice for a folder with damaged files."""
    return f"remove the folder {folder} and run it again"


class Damaged(ValueError):
    """A file in a run's folder is not as the run wrote it, so the same command cannot go on there."""


def damaged(path: Path, why: str, folder: Path | None = None) -> Damaged:
    """The error for such a file; `folder` is the run's, by default the file's."""
    return Damaged(f"{path}: damaged ({why}); {remedy(folder or path.parent)}")


def _finite(value: Any) -> Any:
    """The same with null for each number that is not finite, in JSON's types."""
    return json.loads(json.dumps(value), parse_constant=lambda name: None)


def check_summary(summary: dict[str, Any]) -> None:
    """Raise ValueError that names the first key with a value that no run writes."""
    for key, value in summary.items():
        check_plain(key, value)
    if summary["status"] not in STATUSES:
        raise ValueError(f"status={summary['status']}: must be {' or '.join(STATUSES)}")
    for key, kind in (KINDS | LATER).items():
        if key in summary:
            check_type(key, summary[key], kind)
    for group, kind in VALUES.items():
        for key, value in summary.get(group, {}).items():
            check_type(f"{group}.{key}", value, kind)
    for group, names in INSIDE.items():
        if lacking := [name for name in names if summary[group].get(name, summary) is summary]:
            raise ValueError(f"{group}: lacks {', '.join(lacking)}")
    for name in INSIDE["choices"]:
        check_type(f"choices.{name}", summary["choices"][name], str)
    for name, value in summary["metrics"].items():
        if value is None and summary["status"] == "completed" and name not in summary.get("not_finite", ()):
            raise ValueError(f"metrics.{name}=null: must be a number in a run that completed")
        if name.endswith("/accuracy") and value is not None and not 0 <= value <= 1:
            raise ValueError(f"metrics.{name}={value:g}: must be a fraction, from 0 to 1")
    config = summary["config"]
    for setting in ROOT:
        if setting.key in config:
            check_type(f"config.{setting.key}", config[setting.key], setting.kind)
    for group in GROUPS:
        if group in config:
            check_type(f"config.{group}", config[group], dict)
