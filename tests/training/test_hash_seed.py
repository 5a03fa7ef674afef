"""Python draws the order of sets anew in every process: neither a result nor the order of rows may hang on it."""

import json
from pathlib import Path

import pytest
import yaml
from forked import started
from recorded import curve

from normexp.config.folder import CONFIGS

RUN = [
    "trainer=cpu", "norm=batchnorm", "monitor=full", "monitor.charts=null", "model.width=8", "model.depth=3",
    "max_steps=4", "batch_size=256", "log_every_n_steps=2", "val_every_n_steps=2",
]  # fmt: skip
FULL = yaml.safe_load((CONFIGS / "monitor" / "full.yaml").read_text())
RUN += [f"monitor.{name}.every_n_steps=2" for name in FULL if name != "defaults"]
CODE = "import sys; from normexp.config.run_spec import specs; from normexp.training.train import train; "
CODE += "print({'order of a set': list(set(map(str, range(20))))}); train(*specs(sys.argv[1:]))"


def found(outputs: Path) -> tuple[list[tuple[str, ...]], dict]:
    (path,) = outputs.rglob("summary.json")
    summary = json.loads(path.read_text())
    return curve(outputs), {key: summary[key] for key in ("hash", "metrics", "convergence", "config")}


@pytest.mark.slow
def test_rows_and_results_are_the_same_under_every_hash_seed(tmp_path):
    said = {}
    for seed in ("1", "2"):
        done = started("-c", CODE, *RUN, f"outputs={tmp_path / seed}", PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        said[seed] = done.stdout
    assert said["1"].split("\n")[0] != said["2"].split("\n")[0]
    (rows, summary), (other_rows, other_summary) = (found(tmp_path / seed) for seed in said)
    assert len({metric for _, _, metric, _ in rows}) > 50
    assert rows == other_rows
    for part in (summary, other_summary):
        part["config"].pop("outputs")
        part["convergence"] = {k: v for k, v in part["convergence"].items() if "seconds" not in k}
    assert summary == other_summary
