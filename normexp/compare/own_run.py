"""A call of somebody's own function, `train(norm, lr, seed)`, as a run that any place can compute."""

import contextlib
import hashlib
import inspect
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from normexp.check.resolve import imported
from normexp.runs import read_summary, write_summary
from normexp.training.folder import RunFolder

OF_SEED = ("lr", "seed")  # arguments that are no arm's


@dataclass(frozen=True)
class OwnRun:
    """One call of a function, `file.py:train`. It returns a number, or {"val": ..., "test": ..., "curve": [(step,
    loss), ...]}. The run is finished once its result is written; one that was killed begins anew."""

    target: str
    arguments: Mapping[str, Any]
    folder: Path
    digest: str
    overrides: tuple[str, ...] = ()
    # What places ask of a run.
    config: ClassVar = {"threads": 1, "trainer": {"accelerator": "auto", "devices": 1}, "compile": False}

    @property
    def choices(self) -> dict[str, str]:
        return {"model": self.target.rpartition(":")[2]}

    def train(self, command: str = "") -> dict[str, Any]:
        """Call the function unless it has a result. Returns the summary."""
        folder = RunFolder(self.folder, self.digest, {"arguments.json": json.dumps(dict(self.arguments))})
        with folder:
            if finished := read_summary(self.folder):
                return finished
            function, started = imported(self.target, "train"), time.monotonic()
            try:
                with contextlib.chdir("."):  # it may go elsewhere, and what follows is written from here
                    returned = function(**self.arguments)
            except ArithmeticError:  # such as an overflow: it diverged
                returned = math.nan
            except SystemExit as stop:  # of a script with a main of its own: a failure like any other
                problem = f"{self.target} called sys.exit({stop.code or ''})"
                raise RuntimeError(f"{problem}; return a number") from stop
            metrics = dict(returned) if isinstance(returned, Mapping) else {"test": returned}
            curve = metrics.pop("curve", None)
            try:
                values = {key: float(value) for key, value in metrics.items()}
                points = None if curve is None else [(float(step), float(loss)) for step, loss in curve]
            except (TypeError, ValueError, RuntimeError):  # RuntimeError of a tensor of several numbers
                wanted = (
                    "a number, or numbers by name: {'val': 0.9, 'test': 0.9, 'curve': [(step, loss), ...]}"
                )
                raise ValueError(f"{self.target} returned {str(returned)[:60]}; return {wanted}") from None
            summary = {
                "status": "completed" if all(map(math.isfinite, values.values())) else "diverged",
                "hash": self.digest, "choices": self.choices, "config": dict(self.arguments), "metrics": values,
                "seconds": time.monotonic() - started, "command": command,
                "curve": points, "convergence": {}, "execution": {}, "versions": {},
            }  # fmt: skip
            write_summary(self.folder, summary)
        return summary


def own_run(target: str, version: str, folder: Path, arguments: Mapping[str, Any]) -> OwnRun:
    """The run of these arguments, that of the arm first, below a folder. They, the name of the function and its version
    identify it."""
    identity = json.dumps([Path(target).name, version, arguments], sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()
    slug = re.sub(r"[^\w.+-]+", "-", str(next(iter(arguments.values()))))[:40]
    rate = f"-lr{arguments['lr']:g}" if "lr" in arguments else ""
    return OwnRun(
        target, arguments, folder / ".runs" / f"{slug}{rate}-s{arguments['seed']}-{digest[:8]}", digest
    )


def arguments_of(target: str, more: Sequence[str]) -> list[str]:
    """The names of a function's arguments, that of the arm first: the first that is neither lr, seed nor one of `more`.
    Raises ValueError for a function that cannot be called so."""
    function = imported(target, "train")
    if not callable(function):
        raise ValueError(f"train={target}: is {str(function)[:60]}, no function; name one")
    parameters = inspect.signature(function).parameters
    named = [name for name, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    arm = next((name for name in named if name not in (*OF_SEED, *more)), None)
    if arm is None or "seed" not in named:
        raise ValueError(
            f"train={target}: takes {', '.join(named) or 'nothing'}; write def train(arm, lr, seed)"
        )
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    if unknown := [name for name in more if name not in named and not open_ended]:
        raise ValueError(f"{unknown[0]}: is no argument of {target}; it takes {', '.join(named)}")
    given = (arm, *OF_SEED, *more)
    if lacking := [n for n in named if n not in given and parameters[n].default is inspect.Parameter.empty]:
        raise ValueError(f"{lacking[0]}: {target} has no default for it; write {lacking[0]}=VALUE")
    return [arm, *(name for name in named if name != arm)]


def plain(text: str) -> Any:
    """A value of the command line: a number if it is one, true or false, else text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text, text)
