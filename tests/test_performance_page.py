"""docs/performance.md says what the benchmarks' files say, on fabricated ones."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.measure.machine import machine
from benchmarks.page import performance_page

ROOT = Path(__file__).parents[1]
MACHINE = {
    "cpu": "Abacus 3000", "cores": 7, "memory_gib": 5.5, "gpu": None, "threads": 1,
    "python": "3.11", "torch": "2.99", "lightning": "2.6",
}  # fmt: skip
RATIO = {"ratio": 1.11, "low": 1.01, "high": 1.21, "device": "cpu"}
LOOP = {"loop": "normexp", "us": 2000.0, "bare_us": 1800.0, "blocks": 5} | RATIO
PART = {"what": "import torch", "seconds": 1.5, "against": 5.0} | RATIO
FILES = {
    "loop_benchmark.json": [
        LOOP | {"model": "mlp", "batch_size": 64},
        LOOP | {"model": "cnn", "batch_size": 512, "ratio": 1.02},
        LOOP | {"model": "mlp", "batch_size": 64, "loop": "tutorial", "ratio": 7.07},
        LOOP | {"model": "transformer", "batch_size": 64, "loop": "tutorial", "ratio": 1.49},
    ],
    "startup_benchmark.json": [PART, PART | {"what": "train.py --help", "seconds": 0.61, "against": 0.6}],
    "scale_benchmark.json": [
        RATIO | {"model": "mlp", "axis": "replicas", "value": 16, "memory_ratio": 3.3, "ms": 4.4, "memory_mib": 5.5}
    ],
    "leak_benchmark.json": [
        {
            "ratio": 1.002, "first_step": 1000, "first_mib": 500.0, "last_step": 10000, "last_mib": 501.0,
            "kib_a_step": 0.114, "limit": 0.25, "leaks": False, "readings": [[1000, 500.0], [10000, 501.0]],
        }
    ],
    "compiled_benchmark.json": [
        RATIO
        | {
            "compile": "true", "model": "cnn", "batch_size": 64, "ms": 1.0, "eager_ms": 2.0, "compile_seconds": 30.0,
            "cached_seconds": None, "pays_after_steps": 1234567,
        }
    ],
    "replicas_benchmark.json": [
        RATIO
        | {
            "model": "mlp", "width": 64, "batch_size": 64, "replicas": 16, "workers": 2, "threads": 1, "together": 99.0,
            "alone": 33.0, "options": "data=mnist",
        }
    ],
    "replicas_equality.json": [
        {"norm": "batchnorm", "model": "mlp", "difference": 2e-9, "why_not": None},
        {"norm": "batchnorm_noisy", "model": "mlp", "difference": None, "why_not": "it draws numbers"},
    ],
    "families_benchmark.json": [
        RATIO
        | {
            "family": "cifar10_cnn_16", "replicas": 4, "epochs": 3, "workers": 2, "together_s": 18.0, "alone_s": 15.5,
            "limit": 1.32, "runs_a_minute": 7.7,
        },
        RATIO
        | {
            "family": "mnist_mlp_256", "replicas": 12, "epochs": 2, "workers": 2, "together_s": 1.0, "alone_s": 1.6,
            "limit": 2.5, "runs_a_minute": 120.0, "ratio": 1.6,
        },
    ],
    "evaluation_benchmark.json": [
        RATIO
        | {
            "model": "mlp", "what": "loss and accuracy", "images": 10000, "ms": 55.5, "forward_ms": 50.0,
            "forward_batch": 512,
        }
    ],
    "synchronizations.json": [
        {"norm": name, "model": "mlp", "mode": "alone", "a_step": count, "where": where}
        for name, count, where in (("layernorm", 0, ""), ("batchnorm_noisy", 2.0, "norms/noisy.py:59 (2)"))
    ],
    "sweep_benchmark.json": [PART | {"what": "8 runs: 2 processes x 1 thread, over 1 x 2", "ratio": 0.71}],
    "norms_benchmark.json": [
        {"norm": "layernorm", "device": "cpu", "compiled": False, "shape": shape, "both": {"ours": ours, "hand": RATIO}}
        for shape, ours in (("dense", RATIO), ("image", RATIO | {"ratio": 1.01}))
    ],
    "monitors_benchmark.json": [
        RATIO | {"model": "mlp", "monitors": name, "cores": 3, "torch": "2.98"} for name in ("light", "naive")
    ],
}  # fmt: skip
UNRECORDED = "monitors_benchmark.json"  # measured before rows had a machine


@pytest.fixture
def docs(tmp_path):
    for name, rows in FILES.items():
        rows = rows if name == UNRECORDED else [row | {"machine": MACHINE} for row in rows]
        (tmp_path / name).write_text(json.dumps(rows))
    return tmp_path


def page(docs: Path) -> str:
    return performance_page.page(performance_page.read(docs), performance_page.found_in(docs / "gpu"))


def test_every_section_starts_its_rows_with_the_ratio_and_names_the_machine(docs):
    text = page(docs)
    for row in (
        "| 1.11 | 1.01 to 1.21 | 1.1 | normexp | mlp | 64 | 2.00 | 1.80 | 5 |",
        "| 1.11 | 1.01 to 1.21 | import torch | 1.50 | 5.00 |",
        "| 1.11 | 1.01 to 1.21 | 3.30 | mlp | `replicas=16` | 4.40 | 5.5 |",
        "| 1.002 | 500.0 MiB at step 1,000 | 501.0 MiB at step 10,000 | 0.114 | 0.25 | no leak |",
        "| 1.11 | 1.01 to 1.21 | `true` | cnn | 64 | 1.00 | 2.00 | 30.0 | not measured | 1,234,567 steps |",
        "| 1.11 | 1.01 to 1.21 | mlp | 64 | 64 | 16 | 99 | 33 | 2 x 1 |",
        "| `batchnorm` | 2e-09 |",
        "| 1.11 | 1.01 to 1.21 | 1.32 | `cifar10_cnn_16` | 4 | 3 | 18.00 | 15.50 | 8 |",
        "| 1.11 | 1.01 to 1.21 | mlp | loss and accuracy | 10,000 | 55.5 | 50.0 | 512 |",
        "| `batchnorm_noisy` | mlp | alone | 2 | norms/noisy.py:59 (2) |",
        "1 of 2 pairs of model and norm wait for the device in no step.",
        "- `batchnorm_noisy` in mlp: it draws numbers",
        "| `layernorm` | 1.11 (1.1) | 1.01 (1.1) |",
        "| `naive` | 1.110 |",
    ):
        assert row in text
    recorded = "Abacus 3000, 7 cores, 5.5 GiB, no GPU, 1 thread (Python 3.11, torch 2.99, Lightning 2.6)"
    assert text.count(recorded) == len(FILES) - 1
    assert "a machine that was not recorded (cores: 3, torch 2.98)" in text
    assert "{{" not in text


def test_targets_are_judged_both_ways(docs):
    text = page(docs)
    for row in (
        "| 1.11 | ≤ 1.1 | **missed** | one run over a bare loop: mlp, batch 64 |",
        "| 1.02 | ≤ 1.03 | met | one run over a bare loop: cnn, batch 512 |",
        "| 7.07 | ≥ 5 | met | Lightning as in tutorials over a bare loop: mlp, batch 64 |",
        "| 1.49 | ≥ 3.5 | **missed** | Lightning as in tutorials over a bare loop: transformer, batch 64 |",
        "| 1.11 | ≤ 1.05 | **missed** | norm over torch's layer: layernorm, dense, the worst of 2 shapes |",
        "| 0.61 | ≤ 0.6 | **missed** | seconds of `train.py --help` |",
        "| 1.11 | ≥ 2 | **missed** | 16 replicas of an MLP of width 64 over one by one, on CPUs |",
        "| 1.60 | ≥ 1.5 | met | seeds and rates together over one by one: mnist_mlp_256 |",
        "| 15.5 | ≤ 15 | **missed** | seconds of a whole run of 3 epochs, 2 at a time: cifar10_cnn_16 |",
        "| 1.11 | ≤ 1.15 | met | evaluation over the forward pass alone: mlp, loss and accuracy |",
        "| 0.71 | ≤ 0.9 | met | 8 runs: 2 processes x 1 thread, over 1 x 2 |",
        "| 2e-09 | ≤ 1e-11 | **missed** |",
    ):
        assert row in text


def test_absent_files_and_gpus_are_said_to_be_not_measured(docs):
    assert "Nothing on this page was measured on a GPU" in page(docs)
    (docs / "compiled_benchmark.json").unlink()
    text = page(docs)
    assert "**Not measured** (no docs/compiled_benchmark.json)." in text
    assert "- `compiled`: no docs/compiled_benchmark.json" in text
    assert re.search(r"On a GPU: loop, .*eight times the speed", text)


def test_figures_of_a_gpu_stand_beside_those_of_the_cpu(docs):
    on_gpu = {"device": "cuda", "machine": MACHINE | {"gpu": "Cray on a stick"}}
    (docs / "gpu").mkdir()
    for name, ratio in (("loop_benchmark.json", 1.07), ("replicas_benchmark.json", 8.5)):
        rows = [row | on_gpu | {"ratio": ratio} for row in FILES[name][:1]]
        (docs / "gpu" / name).write_text(json.dumps(rows))
    text = page(docs)
    assert "Measured on a GPU, too: loop, replicas." in text
    assert "5.5 GiB, Cray on a stick, 1 thread" in section(text, "One run")
    assert "| 1.07 | 1.01 to 1.21 | 1.1 | normexp | mlp | 64 |" in section(text, "One run")
    assert "| 1.11 | 1.01 to 1.21 | 1.1 | normexp | mlp | 64 |" in section(text, "One run")
    assert "| 8.50 | ≥ 8 | met | 16 replicas of an MLP of width 64 over one by one, on a GPU |" in text
    assert not re.search(r"On a GPU: .*loop,", text.split("## Not measured")[1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "none of loop_benchmark.json"),
        ("{", "no JSON"),
        ("[]", "has no rows"),
        ('[{"model": "mlp"}]', "a row has no"),
    ],
)
def test_bad_files_are_one_line_and_exit_status_two(tmp_path, content, message):
    if content is not None:
        (tmp_path / "loop_benchmark.json").write_text(content)
    command = [sys.executable, "scripts/performance_page.py", "--docs", str(tmp_path)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 2
    assert re.fullmatch(rf"Error: .*{message}.*\n", found.stderr)
    assert not (tmp_path / "performance.md").exists()


@pytest.mark.parametrize("title", ["One run", "Startup", "Scale", "Memory over a long run", "Compiled"])
def test_page_of_the_repository_shows_its_files(title):
    fresh, there = page(ROOT / "docs"), (ROOT / "docs" / "performance.md").read_text()
    assert section(there, title) == section(fresh, title), "run python scripts/performance_page.py"


def section(text: str, title: str) -> str:
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_benchmarks_record_what_the_page_says_of_a_machine():
    assert machine().keys() == MACHINE.keys()
    assert machine()["cores"] >= 1
