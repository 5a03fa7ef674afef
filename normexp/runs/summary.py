"""`summary.json`: the results of one run. It is written last, and whole or not at all."""

import json
import math
import stat
from pathlib import Path
from typing import Any

from normexp.runs.columns import RESULT_GROUPS, RESULTS
from normexp.runs.files import write_json
from normexp.runs.summary_checks import STATUSES, check_summary

SUMMARY = "summary.json"
MOST_BYTES = 2**24
NEEDED = {"choices", "config", "metrics", *RESULT_GROUPS, *RESULTS} - {"run"}


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write `summary.json` last and atomically: its presence means that the run is complete.

    Raises ValueError for an unknown status. Numbers that are not finite become null, because JSON has no NaN; the
    status tells of them.
    """
    if summary["status"] not in STATUSES:
        raise ValueError(f"status={summary['status']}: choose from {', '.join(STATUSES)}")
    write_json(folder / SUMMARY, _finite(summary))


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
        raise damaged(path, "nested without end", path.parent) from None
    except ValueError as error:  # no JSON, or no text
        raise damaged(path, f"no valid JSON: {error}", path.parent) from None
    if not isinstance(summary, dict) or not summary:
        raise damaged(path, "holds no summary of a run", path.parent)
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
        raise damaged(path, str(error), path.parent) from None
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


def damaged(path: Path, why: str, folder: Path) -> ValueError:
    """The error for a file in a run's folder that is not as the run wrote it."""
    return ValueError(f"{path}: damaged ({why}); {remedy(folder)}")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
