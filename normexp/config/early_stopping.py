"""When a configuration lets a run end before its length. Knows no torch."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

Metric = Literal["accuracy", "loss"]
FORMS = "early_stopping=5, early_stopping={patience: 5, metric: loss, min_delta: 0.001}"


@dataclass(frozen=True)
class EarlyStop:
    """Args:
    patience: validations in a row without progress after which a run ends.
    metric: of validation.
    min_delta: progress is a change by more than this.
    """

    patience: int
    metric: Metric = "accuracy"
    min_delta: float = 0.0


def early_stop(config: dict[str, Any]) -> EarlyStop | None:
    """What `early_stopping` asks for: nothing, a number of validations, or keys. ValueError in one line for else."""
    asked = config.get("early_stopping")
    if asked is None:
        return None
    asked = asked if isinstance(asked, dict) else {"patience": asked}
    if unknown := set(asked) - {"patience", "metric", "min_delta"}:
        raise ValueError(f"early_stopping.{min(unknown)}: no such key; write {FORMS}")
    patience, metric, delta = (
        asked.get("patience"),
        asked.get("metric", "accuracy"),
        asked.get("min_delta", 0.0),
    )
    if not isinstance(patience, int) or isinstance(patience, bool) or patience < 1:
        raise ValueError(
            f"early_stopping.patience={patience}: must be a number of validations, at least 1; {FORMS}"
        )
    if metric not in get_args(Metric):
        raise ValueError(f"early_stopping.metric={metric}: choose from {', '.join(get_args(Metric))}")
    if not isinstance(delta, int | float) or isinstance(delta, bool) or not delta >= 0:
        raise ValueError(f"early_stopping.min_delta={delta}: must be a number of at least 0")
    return EarlyStop(patience, metric, float(delta))
