"""scripts/benchmark.py: what it compares, what it keeps, and that the pages show the committed numbers."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import benchmark
import pytest
import torch
from benchmarks import Options
from benchmarks.bare_loop import BareLoop
from benchmarks.page import FILE, pages, tables
from benchmarks.table import MEASUREMENTS, Measurement
from doc_tables import DATA, DOCS, filled, read_rows

ROOT = Path(__file__).parents[1]
ROWS = read_rows(DATA / FILE)
FAST = Options(0, least=2, quick=True)


def row(ratio: float, case: str = "mlp, batch 64", name: str = "run") -> dict:
    return benchmark.row(name, case, [(ratio, 1.0)], {}) | {"machine": "an abacus"}


def test_a_row_holds_medians_and_quartiles_of_the_ratios():
    found = benchmark.row("run", "mlp, batch 64", [(2, 1), (4, 1), (6, 2), (10, 2), (12, 2)], {"peak_mb": 7})
    assert [found[key] for key in ("low", "ratio", "high")] == [3, 4, 5]
    assert (found["own"], found["reference"], found["rounds"], found["peak_mb"]) == (6, 2, 5, 7)


@pytest.mark.parametrize(
    ("fresh", "line"), [(1.19, None), (0.2, None), (1.21, "mlp, batch 64: 1.21, was 1.00, allowed <= 1.20")]
)
def test_a_ratio_may_be_worse_by_its_tolerance_and_better_by_any_amount(fresh, line):
    found = benchmark.regressions([row(fresh)], {("run", "mlp, batch 64"): 1.0}, 0.2)
    assert list(found.values()) == ([line] if line else [])


def test_check_names_what_was_worse_twice_and_nothing_else(monkeypatch, capsys):
    slow = {"mlp, batch 64": [9.0, 1.0], "cnn, batch 64": [9.0, 9.0]}  # the MLP only once

    def measured(name, cases, options):
        return [row(slow[case].pop(0) if case in slow else 0.1, case) for case in cases], []

    monkeypatch.setattr(benchmark, "measured", measured)
    with pytest.raises(SystemExit) as stopped:
        benchmark.main(["check", "run", "growth"])
    assert stopped.value.code == 1
    said = capsys.readouterr().out
    assert [line[:31] for line in said.splitlines() if "regression" in line] == [
        "regression  run, cnn, batch 64:"
    ]
    assert "growth: not checked" in said


def test_the_table_names_functions_cases_and_devices_that_there_are():
    for name, measurement in MEASUREMENTS.items():
        module, _, function = measurement.function.partition(".")
        assert callable(getattr(importlib.import_module(f"benchmarks.{module}"), function))
        assert set(measurement.guard) <= set(measurement.cases), name


def test_committed_rows_are_cases_of_the_table_and_guards_have_committed_rows():
    committed = {(row["measurement"], row["case"]) for row in ROWS}
    assert committed <= {(name, case) for name, m in MEASUREMENTS.items() for case in m.cases}
    assert {(name, case) for name, m in MEASUREMENTS.items() for case in m.guard} <= committed
    assert all(row["low"] <= row["ratio"] <= row["high"] and row["commit"] and row["date"] for row in ROWS)


@pytest.mark.parametrize(("name", "parts"), pages(ROWS).items())
def test_a_page_shows_the_committed_numbers(name, parts):
    page = (DOCS / name).read_text()
    assert filled(page, parts) == page, "run python scripts/benchmark.py page"


def test_targets_say_by_how_much_they_are_missed():
    text = tables([row(1.05), row(1.21, "cnn, batch 64")])["targets"]
    assert text.startswith("1 of 2 targets are met.")
    assert "| 1.21 | ≤ 1.1 | 10% | One run | cnn, batch 64 |" in text


def test_a_case_that_fails_is_named_and_the_others_go_on(monkeypatch):
    cases = {"good": ("layernorm", "dense"), "bad": ("no_such_norm", "dense")}
    monkeypatch.setitem(MEASUREMENTS, "fake", Measurement("Fake", "norms.norms", ("us", "us"), cases))
    threads = torch.get_num_threads()
    found = benchmark.measure_here("fake", json.dumps(list(cases)), json.dumps({"seconds": 0, "quick": True}))
    torch.set_num_threads(threads)
    assert list(found["cases"]) == ["good"]
    assert len(found["errors"]) == 1
    assert found["errors"][0].startswith("bad: FileNotFoundError")


def test_a_measurement_that_ends_early_says_so(monkeypatch, tmp_path):
    script = tmp_path / "ends.py"
    script.write_text("raise SystemExit('no memory')")
    monkeypatch.setattr(benchmark, "__file__", str(script))
    monkeypatch.setitem(MEASUREMENTS, "fake", Measurement("Fake", "norms.norms", ("us", "us"), {"a": ()}))
    assert benchmark.measured("fake", ["a"], FAST) == ([], ["ended with 1: no memory"])


def test_the_bare_loop_moves_images_within_reflected_borders():
    words = ["model=mlp", "data=digits", "data.augment=true", "data.border=reflect", "batch_size=64"]
    loop = BareLoop(words)
    inputs, targets = loop.batch(0)
    originals, labels = loop.train.take(loop.rows[0])
    assert torch.equal(targets, labels)
    for image, original, (down, right, mirrored) in zip(
        inputs, originals, loop.draws[0].tolist(), strict=True
    ):
        padded = torch.nn.functional.pad(original, (1,) * 4, mode="reflect")
        moved = padded[:, 1 - down : 9 - down, 1 - right : 9 - right]
        assert torch.equal(image, moved.flip(2) if mirrored else moved)
    assert len(loop.draws[0].unique(dim=0)) == 9
    assert not torch.equal(loop.batch(len(loop.loader))[0], inputs)  # a new epoch has a new order


def test_the_bare_loop_evaluates_an_image_and_its_mirror_image_where_the_run_does():
    once, both = (BareLoop(["model=mlp", "data=digits", f"data.tta={tta}"]) for tta in ("none", "flip"))
    for step in range(20):
        once.step(step)
        both.step(step)
    x, y = once.splits["test"].take(slice(None))
    with torch.no_grad():
        one, other = (once.network.eval()(images) for images in (x, x.flip(3)))
    right = [(logits.argmax(1) == y).sum().item() / len(y) for logits in (one, one + other)]
    assert [once.evaluate("test"), both.evaluate("test")] == right
    assert right[0] != right[1]


@pytest.mark.slow
def test_everything_can_be_measured(tmp_path, mnist_root):
    words = ["run", *MEASUREMENTS, "--quick", "--out", str(tmp_path)]
    command = [sys.executable, "scripts/benchmark.py", *words, f"data.root={mnist_root}"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    rows = json.loads((tmp_path / FILE).read_text())
    assert {row["measurement"] for row in rows} == set(MEASUREMENTS)
