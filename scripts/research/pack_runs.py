"""Pack the finished runs of a folder, `pack_runs.py pack CACHE OUT`, or unpack them, `pack_runs.py unpack OUT CACHE`.

It takes what a verdict reads, without checkpoints and losses of single examples: `summary.json`, `metrics.csv`,
`.hydra`, and which test answers were right, as bits. 1,000 runs take about 5 MB. Nothing of normexp is imported.
"""

import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

TAR, ANSWERS = "runs.tar.xz", "answers.npz"
EXAMPLES = "test_examples.npz"


def pack(cache: Path, out: Path) -> None:
    """Write both files of the finished runs of a cache."""
    out.mkdir(parents=True, exist_ok=True)
    answers: dict[str, Any] = {}
    with tarfile.open(out / TAR, "w:xz", preset=2) as tar:
        for summary in sorted(cache.rglob("summary.json")):
            run = summary.parent
            for path in (summary, run / "metrics.csv", *sorted((run / ".hydra").glob("*"))):
                tar.add(path, str(path.relative_to(cache)))
            if (run / EXAMPLES).exists():
                answers[str(run.relative_to(cache))] = np.packbits(np.load(run / EXAMPLES)["right"])
    np.savez_compressed(out / ANSWERS, **answers)
    print(f"{out}: {len(answers)} runs with their answers")


def unpack(out: Path, cache: Path) -> None:
    """Put the runs into a cache, where the same claims find them. Answers stay in their file."""
    cache.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO((out / TAR).read_bytes())) as tar:
        tar.extractall(cache, filter="data")


if __name__ == "__main__":
    {"pack": pack, "unpack": unpack}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
