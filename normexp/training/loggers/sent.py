"""What a run has sent to a service, so that a resumed run goes on there and sends no number twice."""

import json
from collections.abc import Mapping
from pathlib import Path

from normexp.runs import damaged
from normexp.runs.files import write_json


class Sent:
    """The id of a run at a service, and the last step of each metric that went there.

    A run that was killed has sent more than its checkpoint knows. When it resumes, it computes the same numbers again,
    and those are not sent.

    Args:
        path: of the file that keeps this, in the run's folder.
    """

    def __init__(self, path: Path):
        self.path = path
        self.run_id: str | None = None
        self.steps: dict[str, int] = {}
        if path.exists():
            try:
                content = json.loads(path.read_text())
                self.run_id, self.steps = content["run"], {k: int(v) for k, v in content["steps"].items()}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise damaged(path, f"{type(error).__name__}: {error}", path.parent) from None

    @property
    def last_step(self) -> int:
        return max(self.steps.values(), default=0)

    def new(self, metrics: Mapping[str, float], step: int) -> dict[str, float]:
        """The metrics that were not yet sent at this step. From now on they count as sent."""
        fresh = {name: value for name, value in metrics.items() if step > self.steps.get(name, -1)}
        self.steps |= dict.fromkeys(fresh, step)
        return fresh

    def write(self) -> None:
        write_json(self.path, {"run": self.run_id, "steps": self.steps}, on_disk=False)
