"""The loggers of services: they collect, send now and then, and continue a resumed run."""

import json
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytorch_lightning.loggers.logger import Logger

from normexp.config.identity import model_label
from normexp.config.settings import shown
from normexp.runs import damaged
from normexp.runs.files import write_json
from normexp.runs.summary import ECHOES, flat

if TYPE_CHECKING:
    from normexp.training.parts import Parts

SECONDS = 10.0  # between two sendings; a call for every number would cost as much as some training steps


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


class Row(NamedTuple):
    """Metrics of one step, and when they were measured."""

    metrics: dict[str, float]
    step: int
    time: float


class ServiceLogger(Logger):
    """Stands before one of Lightning's loggers: `class WandbRun(ServiceLogger, WandbLogger)`.

    The file of `Sent` is written before the numbers go out. So a killed run never sends a number twice. If the service
    fails, the run trains on, and the numbers wait for the next sending.

    Attributes:
        error: with which the run ends; None if it ends well.
    """

    service: str  # its name in the setting `logger`

    def __init__(self, sent: Sent, **options: Any):
        super().__init__(**options)
        self.sent = sent
        self.error: BaseException | None = None
        self._waiting: list[Row] = []
        self._failed = False
        self._next = 0.0

    def send(self, rows: list[Row]) -> None:
        """Give rows to the service."""
        for row in rows:
            super().log_metrics(row.metrics, row.step)  # type: ignore[safe-super]

    def end(self) -> None:
        """Tell the service that the run has ended, and how."""
        raise NotImplementedError

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        at = self.sent.last_step if step is None else step
        if fresh := self.sent.new(metrics, at):
            if self._waiting and self._waiting[-1].step == at:
                self._waiting[-1].metrics.update(fresh)
            else:
                self._waiting.append(Row(fresh, at, time.time()))
        if time.monotonic() > self._next:
            self.save()

    def log_hyperparams(
        self, params: Any, metrics: Mapping[str, float] | None = None, *args: Any, **kwargs: Any
    ) -> None:
        """The run's own call at the end brings its results; its settings went out at the start."""
        if metrics is None:
            super().log_hyperparams(params)  # type: ignore[safe-super]
        else:
            self.log_results(metrics)

    def log_results(self, metrics: Mapping[str, float]) -> None:
        """Log the numbers of the run's summary, which belong to no step. Services draw such numbers as bars."""
        self.log_metrics(metrics, 0)

    def save(self) -> None:
        """Send what waits."""
        self._next = time.monotonic() + SECONDS
        if not self._waiting:
            return
        self.sent.write()
        try:
            self.send(self._waiting)
        except Exception as error:  # services raise many types; none of them should end a training
            if not self._failed:
                reason = " ".join(str(error).split())[:200]
                warnings.warn(
                    f"logger={self.service}: numbers cannot be sent ({reason}); metrics.csv has them all, and they "
                    f"are tried again every {SECONDS:.0f} s",
                    stacklevel=2,
                )
            self._failed = True
        else:
            self._waiting = []

    def sizes(self) -> dict[str, int]:
        """Nothing to cut back at a checkpoint: `Sent` knows what went out."""
        self.save()
        return {}

    def finalize(self, status: str = "success") -> None:
        """Do nothing. `open_records` closes the logger after the final numbers are written."""

    def close(self) -> None:
        self.save()
        try:
            self.end()
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            warnings.warn(f"logger={self.service}: the run's end cannot be sent ({reason})", stacklevel=2)


def title(parts: "Parts", folder: Path) -> str:
    """The run's name inside its study, its network and its folder: `mlp/layernorm-bs64-s0-1a2b3c4d`."""
    return f"{model_label(parts.config, parts.choices)}/{folder.name}"


def settings_of(parts: "Parts") -> dict[str, Any]:
    """Everything that tells runs apart: the chosen names and the values of the configuration, flat, each once."""
    values = {
        key: value
        for key, value in flat(parts.config).items()
        if shown(key) and value is not None and ECHOES.get(key) is None
    }
    return {**parts.choices, **values, "hash": parts.digest}
