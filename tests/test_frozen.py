"""What other code and people read off finished runs stays what it was: the tables of three studies of an earlier
version, the keys of a summary, the columns of `metrics.csv` and the names of what monitors measure.

`python tests/test_frozen.py` writes `frozen/expected.json` anew, after a change that is meant.
"""

import json
import math
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

import normexp
from normexp.machine import checkout
from normexp.runs import load, load_summaries

FROZEN = Path(__file__).parent / "frozen"
STUDIES = ("sizes", "rates", "text")
RUNS = {  # with every monitor
    "mlp": "model=mlp model.depth=2 model.width=16 norm=batchnorm monitor=full max_steps=2",
    "cnn": "model=cnn model.depth=[1] model.width=4 norm=groupnorm monitor=full max_steps=2",
    "gpt": "model=gpt model.depth=1 model.width=16 data=python_docs data.context_length=8 norm=layernorm monitor=full "
    "max_steps=2",
}  # fmt: skip
GOING = ("code", "replicas.", "sources", "digests", "first")  # keys and columns that later versions leave out


def read(folder: Path) -> dict[str, Any]:
    """The tables of a study as plain values."""
    rows, table = load_summaries(folder), load(folder)
    means = table.groupby("metric", observed=True)[["step", "samples", "value"]].agg(["count", "mean"])
    return {
        "summaries": json.loads(json.dumps(rows.to_dict("list"), default=lambda number: number.item())),
        "columns": list(table.columns),
        "metrics": {str(name): row.tolist() for name, row in means.iterrows()},
        "varying": {name: sorted(map(str, table[name].unique())) for name in ("run", "norm", "lr", "seed")},
    }


def trained(words: str, folder: Path) -> dict[str, Any]:
    """The names of what a run writes."""
    run = normexp.train(*words.split(), "data.train_size=200", f"outputs={folder}", "batch_size=8")
    groups = ("metrics", "convergence", "execution", "versions")
    return {
        "summary": sorted(run.summary),
        **{group: sorted(run.summary[group]) for group in groups},
        "header": (run.folder / "metrics.csv").read_text().partition("\n")[0],
        "tags": sorted(set(run.metrics["metric"])),
    }


def studies(folder: Path) -> Path:
    """The finished runs of the earlier version, unpacked."""
    with tarfile.open(FROZEN / "studies.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return studies(tmp_path_factory.mktemp("frozen"))


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads((FROZEN / "expected.json").read_text())


@pytest.mark.parametrize("name", STUDIES)
def test_tables_of_an_earlier_version(name: str, unpacked: Path, expected: dict) -> None:
    now, then = read(unpacked / name), expected[name]
    rows = now["summaries"]
    for column, values in then["summaries"].items():
        if not column.startswith(GOING):
            assert column in rows, f"the column {column} is gone"
            assert same(rows[column], values), column
    assert set(then["columns"]) <= set(now["columns"])
    assert now["varying"] == then["varying"]
    assert set(now["metrics"]) == set(then["metrics"])
    assert all(same(now["metrics"][metric], numbers) for metric, numbers in then["metrics"].items())


@pytest.mark.parametrize("name", RUNS)
def test_names_of_what_a_run_writes(name: str, tmp_path: Path, expected: dict) -> None:
    now, then = trained(RUNS[name], tmp_path), expected[name]
    assert now["header"] == then["header"]
    assert now["tags"] == then["tags"]
    going = GOING if checkout() else (*GOING, "checkout")  # an archive of the code, or no git here
    for group in ("summary", "metrics", "convergence", "execution", "versions"):
        assert {key for key in then[group] if not key.startswith(going)} <= set(now[group]), group


def same(now: list, then: list) -> bool:
    """Whether two lists have equal values; numbers up to rounding, NaN is null."""

    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and math.isnan(value) else value

    def close(one: Any, other: Any) -> bool:
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return math.isclose(one, other, rel_tol=1e-9) if numbers else one == other

    return len(now) == len(then) and all(close(plain(a), plain(b)) for a, b in zip(now, then, strict=True))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        studies(Path(place))
        content = {name: read(Path(place) / name) for name in STUDIES}
        content |= {name: trained(words, Path(place) / "runs") for name, words in RUNS.items()}
    (FROZEN / "expected.json").write_text(json.dumps(content, indent=0, sort_keys=True) + "\n")
    print(FROZEN / "expected.json", file=sys.stderr)
