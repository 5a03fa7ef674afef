"""The rule of a configuration that ends a run early. Imports no torch."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

Metric = Literal["accuracy", "loss"]
FORMS = "early_stopping=5, early_stopping={patience: 5, metric: loss, min_delta: 0.001}"


@dataclass(frozen=True)
class EarlyStop:
    """Args:
    patience: end a run after this many validations in a row without progress.
    metric: of validation.
    min_delta: a smaller change is no progress.
    """

    patience: int
    metric: Metric = "accuracy"
    min_delta: float = 0.0


def early_stop(config: dict[str, Any]) -> EarlyStop | None:
    """The rule in `early_stopping`, which is null, a number of validations, or keys. Raises ValueError with one line
    for anything else."""
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
