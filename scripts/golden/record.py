"""Train the golden runs with the present code, and return their results. Their data are small files in the layouts of
the standard data sets, of random content that is always the same."""

import contextlib
import csv
import hashlib
import io
import json
import os
import platform
import re
import runpy
import shutil
import sys
import tarfile
import tempfile
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_sets import make_cifar, make_idx
from PIL import Image

from golden.cases import Case, all_cases

TIMES = ("seconds", "time")  # metrics with these in their names differ from run to run


def record(checkout: Path, rooms: list[str]) -> dict[str, dict[str, Any]]:
    """Name of a run -> `{"tests", "digest", "losses"}`, or `{"refused"}` with the error line of the run. `tests` lists
    the classes that the run tests."""
    results = {}
    with (
        tempfile.TemporaryDirectory() as place,
        warnings.catch_warnings(),
        pytest.MonkeyPatch.context() as patch,
    ):
        warnings.simplefilter("ignore")
        os.environ |= {
            "GOLDEN_FILES": f"{place}/files",
            "NORMEXP_CACHE": f"{place}/cache",
            "HYDRA_FULL_ERROR": "0",
        }
        write_files(Path(place, "files"), patch)
        cases = [case for case in all_cases(checkout / "configs") if any(map(case.is_of, rooms))]
        for index, case in enumerate(cases):
            print(f"\r{index + 1}/{len(cases)} {case.name}"[:100].ljust(100), end="", file=sys.stderr)
            results[case.name] = run(case, checkout, Path(place, "runs"))
    print(file=sys.stderr)
    return results


def run(case: Case, checkout: Path, outputs: Path) -> dict[str, Any]:
    shutil.rmtree(outputs, ignore_errors=True)
    said = io.StringIO()
    sys.argv = ["train.py", *case.overrides, f"outputs={outputs}"]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            runpy.run_path(str(checkout / "train.py"), run_name="__main__")
    except SystemExit as stop:
        if stop.code:
            return {"refused": said.getvalue().strip().split("\n")[-1]}
    folders = sorted(path.parent for path in outputs.rglob("summary.json"))
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in folders]
    rows = [sorted(rows_of(folder / "metrics.csv")) for folder in folders]
    content = hashlib.sha256()
    for folder, summary, logged in zip(folders, summaries, rows, strict=True):
        speed = {name: value for name, value in summary["convergence"].items() if not is_time(name)}
        facts = [*(summary[key] for key in ("status", "steps", "parameters", "metrics")), speed, logged]
        content.update(json.dumps(facts, sort_keys=True).encode())
        content.update(weights_of(folder / "checkpoints" / "last.ckpt"))
    losses = [value for logged in rows for _, name, value in logged if name == "train/loss"]
    tests = sorted({name for path in case.tests for name in classes_at(summaries[0]["config"], path)})
    return {"tests": tests, "digest": content.hexdigest()[:12], "losses": losses}


def rows_of(path: Path) -> list[tuple[int, str, str]]:
    """(step, metric, value) of each row whose value is not a time."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if not is_time(row["metric"])]
    return [(int(row["step"]), row["metric"], row["value"]) for row in rows]


def is_time(name: str) -> bool:
    return any(word in name for word in TIMES)


def weights_of(path: Path) -> bytes:
    """Digest of the names, types, shapes and bits of all weights and buffers."""
    content = hashlib.sha256()
    for name, tensor in sorted(torch.load(path, weights_only=True)["state_dict"].items()):
        content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        content.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return content.digest()


def classes_at(config: dict[str, Any], path: str) -> list[str]:
    """The classes at a part of a configuration, without their packages."""
    for key in path.split("."):
        config = config[key]
    nodes = [config] if "_target_" in config else config.values()
    return [node["_target_"].rpartition(".")[2] for node in nodes if node]


def place() -> dict[str, Any]:
    """The machine and the libraries on which the bits of a result depend."""
    file = Path("/proc/cpuinfo")
    about = file.read_text() if file.exists() else ""
    model, flags = (re.search(rf"{key}\s*: (.*)", about) for key in ("model name", "flags"))
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {model[1] if model else platform.processor()}",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "flags": hashlib.sha256(flags[1].encode()).hexdigest()[:12] if flags else "",
    }


def write_files(root: Path, patch: pytest.MonkeyPatch) -> None:
    """Write IDX files, CIFAR's pickles, a folder of PNGs, an archive of JPEGs and a text."""
    random = np.random.default_rng(0)
    for name in ("MNIST", "FashionMNIST", "KMNIST"):
        make_idx(root / name / "raw")
    for name in ("CIFAR10", "CIFAR100"):
        make_cifar(root, name, patch)
    for split, count in (("train", 40), ("test", 10)):
        for kind in ("a", "b", "c"):
            folder = root / "images" / split / kind
            folder.mkdir(parents=True)
            for index in range(count):
                pixels = random.integers(0, 256, (9, 11, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(folder / f"{index}.png")
    with tarfile.open(root / "jpeg.tar.gz", "w:gz") as archive:  # ten classes of random blocks
        photographs = [
            *product(("train",), "abcdefghij", range(10)),
            *product(("test",), "abcdefghij", range(3)),
        ]
        for split, kind, index in photographs:
            blocks = random.integers(0, 256, (4, 4, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
            content = io.BytesIO()
            Image.fromarray(blocks).save(content, "JPEG", quality=90)
            entry = tarfile.TarInfo(f"{split}/{kind}/{index}.jpg")
            entry.size = content.tell()
            content.seek(0)
            archive.addfile(entry, content)
    letters = random.choice(list("abcdefgh ,.\n"), 20_000)
    (root / "text.txt").write_text("".join(letters))


if __name__ == "__main__":
    out, checkout, *rooms = sys.argv[1:]
    content = {"place": place(), "runs": record(Path(checkout), rooms)}
    Path(out).write_text(json.dumps(content))
