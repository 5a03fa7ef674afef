"""Wait for what a sweep does elsewhere, read what it has done, and what two of its drivers have."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import TypeVar

from normexp.runs import load_summaries

CLAIM = """
name: training_helps
sentence: A network that is trained is right more often than one that hardly learns.
source: nobody
covers: [mine]
evidence: training
metric: test/accuracy
measure: test accuracy
better: higher
arms: {trained: [lr=0.1], stuck: [lr=0.000001]}
fixed: [model=mlp, model.depth=1, model.width=16, norm=layernorm, data=digits, batch_size=64, max_epochs=4]
seeds: 5
comparison: {kind: greater, arm: trained, baseline: stuck, margin: 0.1}
seconds: 1
"""

Found = TypeVar("Found")


def until(condition: Callable[[], Found], seconds: float = 300.0) -> Found:
    """What the condition gives as soon as that is true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.2)
    return found


def states(outputs: Path) -> list[str]:
    """Of the cells of the last launch in a folder of outputs."""
    path = max(outputs.glob("runs/.sweeps/*/sweep.json"))
    return [cell["state"] for cell in json.loads(path.read_text())["cells"]]


def two_drivers_share_four_runs(start: Callable[[Path], Popen], place: Path) -> None:
    """Start one sweep over four seeds twice at once: both drivers end well, and each run is trained once.

    Args:
        start: a driver that writes its screen to this file, and its runs into `place / "o"`.
    """
    screens = [place / name for name in ("first", "second")]
    ends = [driver.wait(900) for driver in [start(screen) for screen in screens]]
    assert ends == [0, 0], [screen.read_text() for screen in screens]
    assert len(load_summaries(place / "o" / "runs", {"seed": [0, 1, 2, 3]})) == 4
    # A second start would have written another file. (Those of the mean over seeds lie in folders beside.)
    assert len(list(place.glob("o/runs/mlp/*/events.out.tfevents.*"))) == 4
