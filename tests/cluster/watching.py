"""Wait for what a sweep does elsewhere, and read what it has done."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

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
