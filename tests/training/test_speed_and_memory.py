"""What a run costs: no memory is kept from step to step, and the benchmark times the project's own training."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import pytorch_lightning as pl
from benchmarks import Measured, Options
from benchmarks.training import leak, over_bare

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc"),
]


class Hoarder(pl.Callback):
    """The smallest leak there is: one number of each step, kept as a tensor."""

    def __init__(self):
        self.kept = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx) -> None:
        self.kept.append(outputs["loss"])


def growth(*callbacks: pl.Callback) -> Measured:
    """In a process of its own: in one that has run other tests, new tensors find room in pages that are half empty."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(leak, Options(0), steps=4000, callbacks=callbacks).result()


def test_memory_does_not_grow_with_the_steps():
    ((slope, limit),), readings = growth()
    assert slope < limit, readings


def test_one_kept_number_a_step_is_found():
    ((slope, limit),), readings = growth(Hoarder())
    assert slope > limit, readings


def test_a_run_and_the_bare_loop_are_timed_in_turn():
    pairs, _ = over_bare("mlp", 16, options=Options(0, quick=True))
    assert len(pairs) >= 3
    assert all(own > 0 and bare > 0 for own, bare in pairs)
