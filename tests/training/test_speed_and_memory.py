"""What a run costs: no memory kept from step to step, and benchmarks that time the project's own training."""

import json
import multiprocessing
import sys
import types
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import benchmark
import pytest
import pytorch_lightning as pl
import torch
from benchmarks import startup
from benchmarks.measure import leak
from benchmarks.measure.step_times import BLOCK, train


class Hoarder(pl.Callback):
    """The smallest leak there is: one number of each step, kept as a tensor."""

    def __init__(self):
        self.kept = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        self.kept.append(outputs["loss"])


def growth(*callbacks: pl.Callback) -> dict:
    """In a process of its own: in one that has run other tests, new tensors find room in pages that are half empty."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(leak.growth, ["trainer=cpu"], steps=4000, callbacks=callbacks).result()


needs_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


@pytest.mark.slow
@needs_linux
def test_memory_does_not_grow_with_the_steps():
    row = growth()
    assert not row["leaks"], row["readings"]


@pytest.mark.slow
@needs_linux
def test_one_kept_number_a_step_is_found():
    row = growth(Hoarder())
    assert row["leaks"], row["readings"]


def test_run_whose_readings_would_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"--steps=30: .*; use a multiple of 20"):
        leak.growth([], steps=30)


@pytest.mark.parametrize("replicas", [1, 2])
def test_times_are_those_of_the_steps_and_memory_holds_the_weights(replicas):
    small = ["trainer=cpu", "model.depth=1", "model.width=256", f"replicas={replicas}"]
    times, whole = train(small, 4 * BLOCK)
    assert len(times.blocks) == 4
    assert 0 < sum(times.blocks) < whole
    weights = replicas * (64 * 256 + 256 + 2 * 256 + 256 * 10 + 10) * 4 / 2**20
    assert not times.rise < weights  # nan where the system does not tell


@pytest.mark.slow
def test_parts_of_the_start_add_up_to_the_whole():
    parts = startup.first_step(["trainer=cpu", "model.width=16"])
    assert list(parts) == [
        "python", "import Hydra", "composing", "import torch", "import Lightning", "import normexp",
        "building data, model, trainer", "Lightning's preparations",
    ]  # fmt: skip
    assert all(seconds >= 0 for seconds in parts.values())
    assert sum(parts.values()) < 60


def test_rows_of_a_table_measured_in_parts_stand_in_one_file(tmp_path, monkeypatch):
    file = tmp_path / "rows.json"
    monkeypatch.setattr(benchmark, "COMMANDS", ["fake"])
    fake = types.SimpleNamespace(main=lambda rest: [{"ratio": 1.5, "rest": rest}])
    monkeypatch.setitem(sys.modules, "benchmarks.fake", fake)
    for options in ([], ["--append"], ["--append"]):
        benchmark.main(["fake", "--json", str(file), "--rounds", "3", *options])
    rows = json.loads(file.read_text())
    assert [(row["ratio"], row["rest"]) for row in rows] == 3 * [(1.5, ["--rounds", "3"])]
    assert rows[0]["machine"]["torch"].split("+")[0] == torch.__version__.split("+")[0]
