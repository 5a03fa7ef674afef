"""The files of a finished run: `metrics.csv`, of many runs read in one pass; `test_examples.npz`, the loss on each test
example and whether its answer was right, which a bootstrap over test examples needs; and the summary beside them.

What they say twice must agree, so a file that is another's, older, half or edited is refused in one line. Whoever takes
a number from a run reads it here.
"""

import difflib
import io
import math
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.config.identity import config_hash, saved_identity
from normexp.monitors.convergence import convergence
from normexp.runs.files import atomic_write
from normexp.runs.summary import SUMMARY, Damaged, damaged, digests, read_summary, remedy

if TYPE_CHECKING:  # they take a while to import, and reading a summary does not need them
    import numpy as np
    import pandas as pd

METRICS = "metrics.csv"
HEADER = b"step,epoch,seconds,metric,value\n"
TEST_EXAMPLES = "test_examples.npz"
TOGETHER = 2000  # files that are parsed as one text
CLOSE = 1e-6  # of a mean over examples that was added up in another order and precision


def read_metrics(
    folders: Sequence[Path], steps: Sequence[int], metrics: Iterable[str] | None = None
) -> "pd.DataFrame":
    """Columns `run` (index into `folders`), step, epoch, seconds, metric, value, in the order of the files.

    Many files are parsed as one text. So a thousand runs take a second, without an index that could be out of date.

    Args:
        steps: number of steps of each run, from its summary. The last step is always recorded, so a file that ends
            earlier was cut off.

    Raises ValueError for a file that is absent, cut off or of another form, and for a metric that no run recorded.
    """
    names = None if metrics is None else set(metrics)
    parts = []
    for start in range(0, max(len(folders), 1), TOGETHER):
        part = _read_part(folders[start : start + TOGETHER], steps[start : start + TOGETHER], start)
        # now, so that memory need not hold all that runs recorded; the categories stay
        if names is not None:
            part = part[part["metric"].isin(names)]
        parts.append(part)
    frame = parts[0] if len(parts) == 1 else _joined(parts)
    for name in names or ():
        check_metric(name, frame["metric"].cat.categories)
    return frame if names is None else frame.reset_index(drop=True)


def _read_part(folders: Sequence[Path], steps: Sequence[int], start: int) -> "pd.DataFrame":
    """The rows of some folders, of which the first has the index `start`."""
    import numpy as np

    texts = [read_rows(folder / METRICS) for folder in folders]
    try:
        frame = _parse(b"".join(texts))
    except ValueError:
        for folder, text in zip(folders, texts, strict=True):
            try:
                _parse(text)
            except ValueError as error:
                raise damaged(folder / METRICS, str(error).strip().splitlines()[0]) from None
        raise
    runs = np.arange(start, start + len(folders))
    frame.insert(0, "run", np.repeat(runs, [text.count(b"\n") for text in texts]))
    last = frame.groupby("run")["step"].max().reindex(runs, fill_value=-1)
    for folder, end, taken in zip(folders, last, steps, strict=True):
        if end != taken:
            why = f"ends at step {end}, but the run took {taken} steps"
            raise Damaged(f"{folder / METRICS}: {why}; {remedy(folder)}")
    return frame


def _joined(parts: "list[pd.DataFrame]") -> "pd.DataFrame":
    """One table of several. It takes the parts out of their list, so that memory holds each number once and a half."""
    import pandas as pd

    metric = pd.api.types.union_categoricals([part.pop("metric") for part in parts], sort_categories=True)
    frame = pd.concat(parts, ignore_index=True)
    parts.clear()
    frame.insert(len(frame.columns) - 1, "metric", pd.Series(metric))
    return frame


def _parse(text: bytes) -> "pd.DataFrame":
    import pandas as pd

    numbers = {"step": "int64", "epoch": "float64", "seconds": "float64", "value": "float64"}
    return pd.read_csv(io.BytesIO(HEADER + text), dtype={**numbers, "metric": "category"})


def check_metric(name: str, recorded: Iterable[str]) -> None:
    """Raise ValueError, with the nearest names, for a metric that no run recorded."""
    recorded = sorted(recorded)
    if name not in recorded:
        near = difflib.get_close_matches(name, recorded, n=3) or recorded[:10]
        raise ValueError(f"metric={name}: recorded by none of these runs; the nearest are {', '.join(near)}")


def read_rows(path: Path) -> bytes:
    """The rows of one file without its header."""
    try:
        header, _, text = path.read_bytes().partition(b"\n")
    except OSError as error:
        why = "absent" if isinstance(error, FileNotFoundError) else error.strerror
        raise ValueError(
            f"{path}: {why}, though the run has a summary; if its folder was just deleted, read again, otherwise "
            "remove it and run it again"
        ) from None
    count = text.count(b"\n")
    if header + b"\n" != HEADER:
        raise ValueError(
            f"{path}: the columns are not {HEADER.decode().strip()}; written by another version?"
        )
    if (text and not text.endswith(b"\n")) or text.count(b",") != 4 * count:
        raise Damaged(f"{path}: cut off or damaged after {count} rows; {remedy(path.parent)}")
    return text


@dataclass(frozen=True, eq=False)
class TestExamples:
    """The final weights on each test example, in the order of the test split.

    Attributes:
        right: bool, (N,) for images; (N, T) for windows of a text, one answer per token.
        loss: cross-entropy in nats, float32 (N,); for a window, the mean over its tokens.
        test_set: digest of the examples and their order. Runs with the same digest can be compared example by example.
            Empty if the data has no digest.
    """

    __test__ = False  # tells pytest that this is no test

    right: "np.ndarray"
    loss: "np.ndarray"
    test_set: str


def write_test_examples(folder: Path, examples: TestExamples) -> None:
    """Write the file whole or not at all. `right` takes one bit per answer (10,000 answers: 1.25 KB)."""
    import numpy as np

    with atomic_write(folder / TEST_EXAMPLES) as file:
        np.savez_compressed(
            file,
            right=np.packbits(examples.right),
            shape=np.array(examples.right.shape),
            loss=examples.loss.astype(np.float32),
            test_set=np.array(examples.test_set),
        )


def load_test_examples(folder: str | Path) -> TestExamples | None:
    """The test examples of a run; None if it kept none, such as a run of an earlier version.

    Raises ValueError with one line for a file that cannot be read or was cut.
    """
    import numpy as np

    path = Path(folder) / TEST_EXAMPLES
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            shape = tuple(arrays["shape"].tolist())
            right = np.unpackbits(arrays["right"], count=int(np.prod(shape))).astype(bool).reshape(shape)
            examples = TestExamples(right, arrays["loss"], str(arrays["test_set"]))
        if len(examples.loss) != len(right):
            raise ValueError(f"{len(examples.loss)} losses of {len(right)} examples")
        return examples
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise damaged(path, reason) from None


@dataclass(frozen=True, eq=False)
class RunFiles:
    """A finished run whose files agree.

    Attributes:
        metrics: the rows of `metrics.csv`: step, epoch, seconds, metric, value.
        examples: the test examples; None if the run kept none.
    """

    folder: Path
    summary: dict[str, Any]
    metrics: "pd.DataFrame"
    examples: TestExamples | None


def read_run(folder: str | Path) -> RunFiles | None:
    """The files of a finished run; None if there is none. Raises ValueError with one line for files that cannot be
    read, or that contradict each other."""
    folder = Path(folder)
    summary = read_checked(folder)
    if summary is None:
        return None
    rows = read_metrics([folder], [summary["steps"]]).drop(columns=["run"])
    return RunFiles(folder, summary, rows, load_test_examples(folder))


def read_checked(folder: Path) -> dict[str, Any] | None:
    """The summary of a finished run, held against the files beside it; None if there is none.

    Recomputed are the hash (from the configuration), the test accuracy and loss (from the kept test examples), the
    number of steps (from `metrics.csv`, and from samples and epochs), and how fast the run learned (from it too). Last,
    each file has the digest that the summary gives.
    """
    folder = Path(folder)
    summary = read_summary(folder)
    if summary is not None:
        checks = (_identity, _samples, _curve, _examples, _digests)
        for name, why in (contradiction for check in checks for contradiction in check(folder, summary)):
            raise damaged(folder / name, why)
    return summary


Contradictions = Iterator[tuple[str, str]]  # file, and what is wrong with it


def _identity(folder: Path, summary: dict[str, Any]) -> Contradictions:
    """The hash is that of the configuration and that for which the folder was made."""
    processes = summary["execution"].get("devices", 1)
    if not isinstance(processes, int) or processes < 1:
        yield SUMMARY, f"execution.devices={processes}: must be a positive integer"
    # earlier versions did not count processes
    hashes = [config_hash(summary["config"], summary["fingerprint"], count) for count in {1, processes}]
    digest = summary["hash"]
    if digest not in hashes:
        yield SUMMARY, f"hash={digest[:8]}: the configuration has {hashes[0][:8]}"
    made_for = saved_identity(folder)
    if made_for not in (None, digest):
        yield SUMMARY, f"is of run {digest[:8]}, but its folder was made for {made_for:.8}"
    nulls = {name for name, value in summary["metrics"].items() if value is None}
    step, status = summary["convergence"].get("divergence_step"), summary["status"]
    if status == "diverged":
        wrong = step is None and not nulls
    else:  # of a healthy run, a split with data that are not finite may have no numbers
        wrong = step is not None or bool(nulls - set(summary.get("not_finite") or ()))
    if wrong:
        did = "did not" if status == "diverged" else "diverged"
        yield SUMMARY, f"status={status}: its numbers are of a run that {did}"


def _samples(folder: Path, summary: dict[str, Any]) -> Contradictions:
    """The steps are those that it takes to see so many samples in so many epochs."""
    samples, epochs = summary.get("samples"), summary["epochs"]
    if samples is None:  # an earlier version
        return
    trainer, size = summary["config"].get("trainer") or {}, summary["config"]["batch_size"]
    per_step = trainer.get("accumulate_grad_batches", 1)
    steps = samples / size * per_step
    if per_step > 1 and epochs > 0:
        epoch, whole = round(samples / size / epochs), int(epochs)
        steps = whole * -(-epoch // per_step) + math.ceil(round((epochs - whole) * epoch) / per_step)
    if steps != summary["steps"]:
        yield SUMMARY, f"samples={samples}: {summary['steps']} steps in {epochs:.6g} epochs have others"


def _curve(folder: Path, summary: dict[str, Any]) -> Contradictions:
    """`metrics.csv` is whole, ends at the last step, and has the validations that the summary sums up."""
    text = read_rows(folder / METRICS)
    tail = text[-4000:].partition(b"\n")[2] if len(text) > 4000 else text  # the last step is always recorded
    last = max(map(int, re.findall(rb"^(\d+),", tail, re.MULTILINE)), default=-1)
    if last != summary["steps"]:
        yield METRICS, f"ends at step {last}, but the run took {summary['steps']} steps"
    if summary["status"] == "diverged":  # its curve may end before the run
        return
    validations = [line.split(b",") for line in _lines_with(b",val/accuracy,", text)]
    rows: dict[int, dict[str, float]] = {}
    try:
        for step, *numbers, _, accuracy in reversed(validations):
            epoch, seconds, share = map(float, (*numbers, accuracy))
            rows[int(step)] = {"step": int(step), "epoch": epoch, "seconds": seconds, "val_accuracy": share}
        recomputed = convergence([rows[step] for step in sorted(rows)], summary["config"]["accuracies"])
    except ValueError as error:
        yield METRICS, str(error)
        return
    for name, value in recomputed.items():
        said = summary["convergence"].get(name, value)
        near = 1e-5 if name.startswith(("epochs", "seconds")) else 1e-9  # the file has six digits of these
        if said != value and (said is None or value is None or not math.isclose(said, value, rel_tol=near)):
            yield SUMMARY, f"convergence.{name}={said}: {METRICS} gives {value}"


def _lines_with(part: bytes, text: bytes) -> Iterator[bytes]:
    """The lines that have this part. Few do, and to split a whole text into lines takes ten times as long."""
    at = text.find(part)
    while at >= 0:
        end = text.find(b"\n", at)
        yield text[text.rfind(b"\n", 0, at) + 1 : end]
        at = text.find(part, end)


def _examples(folder: Path, summary: dict[str, Any]) -> Contradictions:
    """The kept test examples give the test accuracy and loss."""
    examples = load_test_examples(folder)
    by_metric = {"test/accuracy": examples.right, "test/loss": examples.loss} if examples else {}
    for name, array in by_metric.items():
        said, value = summary["metrics"].get(name), float(array.mean(dtype=float)) if array.size else math.nan
        near = CLOSE if name == "test/accuracy" else 1e-4 * max(1.0, abs(value))
        if said is not None and math.isfinite(value) and abs(said - value) > near:
            yield SUMMARY, f"metrics.{name}={said:.6g}: {TEST_EXAMPLES} gives {value:.6g}"


def _digests(folder: Path, summary: dict[str, Any]) -> Contradictions:
    """No file was changed since the run wrote its summary. Summaries of earlier versions do not say."""
    said = summary.get("digests", {})
    for name, now in digests(folder, summary).items():
        if said.get(name, now) != now:
            yield name, "not as the run wrote it"
