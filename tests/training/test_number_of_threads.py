"""A small network trains on one thread, alone and in a sweep, with equal bits; threads sleep where others work."""

import os

import pytest
import torch
from test_one_run import weights

from normexp import machine
from normexp.config import process
from normexp.training.threads import PASSES, SMALL, set_threads, work_of

LARGE = ["model.depth=2", "model.width=512", "batch_size=64"]


def test_the_work_of_an_mlp_is_that_of_its_products(make_parts):
    parts = make_parts("model.depth=2", "model.width=24", "batch_size=32")
    assert work_of(parts) == PASSES * 2 * 32 * (64 * 24 + 24 * 24 + 24 * 10)


def test_the_work_of_a_convolution_counts_its_places(make_parts):
    parts = make_parts("model=cnn", "model.depth=[1]", "model.width=4", "batch_size=8")
    layer = next(module for module in parts.module.modules() if isinstance(module, torch.nn.Conv2d))
    assert work_of(parts) >= PASSES * 2 * 8 * 64 * layer.weight.numel()


@pytest.mark.parametrize(
    ("words", "count"), [([], 1), (["threads=2"], 2), (LARGE, 2), ([*LARGE, "threads=1"], 1)]
)
def test_one_thread_where_none_is_asked_for_and_the_network_is_small(make_parts, two_threads, words, count):
    parts = make_parts(*words)
    assert (work_of(parts) < SMALL) == (words[:1] != LARGE[:1])
    set_threads(parts)
    assert torch.get_num_threads() == count


@pytest.mark.parametrize("words", [["norm=batchnorm"], ["model=cnn", "model.depth=[1]", "norm=layernorm"],
                                   ["model=transformer", "norm=layernorm", "model.dropout=0.1"]])  # fmt: skip
def test_a_run_alone_has_the_bits_of_one_thread(train, two_threads, tmp_path, words):
    small = ["max_epochs=1", "data.train_size=64", "batch_size=8", *words]
    found = []
    for name, more in (("alone", []), ("sweep", ["threads=1"])):
        torch.set_num_threads(2)
        summary, folder = train(f"name={name}", *small, *more)
        assert summary["execution"]["threads"] == 1
        found.append(weights(folder))
    assert found[0].keys() == found[1].keys()
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_what_others_use_of_these_cores_is_read_off_the_system(monkeypatch, tmp_path):
    """Of two cores one worked for 3 s, in all kinds; the third is not ours. Waiting and guests do not count."""
    texts = iter(("cpu0 0 0 0 9 9 0 0 0 0 0", "cpu0 90 60 30 99 99 40 50 30 90 60"))

    def write(_: float = 0) -> None:
        own, rest = next(texts), "cpu1 5 5 5 5 5 5 5 5 5 5\ncpu2 7 0 0 9 9 0 0 0 0 0\nintr 5 6 7\n"
        (tmp_path / "stat").write_text(f"cpu  {own[5:]}\n{own}\n{rest}")

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda _: 100, raising=False)
    monkeypatch.setattr(machine, "CPU_TIMES", tmp_path / "stat")
    write()
    monkeypatch.setattr(machine.time, "sleep", write)
    assert machine.busy_elsewhere() * machine.SAMPLE_SECONDS == pytest.approx(3)


def test_nothing_is_said_to_be_busy_where_the_system_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "CPU_TIMES", tmp_path / "absent")
    assert machine.busy_elsewhere() == 0


@pytest.mark.parametrize(
    ("busy", "given", "imported", "passive"),
    [(1.0, None, False, True), (0.1, None, False, False), (1.0, "GOMP_SPINCOUNT", False, False),
     (1.0, "OMP_WAIT_POLICY", False, False), (1.0, None, True, False)],
)  # fmt: skip
def test_threads_sleep_where_others_work_and_the_user_did_not_choose(
    monkeypatch, busy, given, imported, passive
):
    monkeypatch.setattr(process, "busy_elsewhere", lambda: busy)
    monkeypatch.setattr(process.sys, "modules", {"torch": None} if imported else {})
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    if given:
        monkeypatch.setenv(given, "100")
    process.sleep_where_others_work()
    assert os.environ.get("OMP_WAIT_POLICY") == (
        "PASSIVE" if passive else "100" if given == "OMP_WAIT_POLICY" else None
    )
