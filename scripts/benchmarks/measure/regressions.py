"""Whether fresh ratios are worse than the committed ones."""

from dataclasses import dataclass
from typing import Any

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Guard:
    """A short measurement that is compared with a committed file.

    Args:
        file: in docs.
        command: sub-command of benchmark.py and its arguments.
        same: what makes two rows the same measurement.
        more_is_better: of the ratio.
        tolerance: the part of the committed ratio by which a fresh one may be worse.
    """

    file: str
    command: str
    same: tuple[str, ...]
    more_is_better: bool = False
    tolerance: float = 0.2


# Each takes half a minute on two cores, less where little varies. Absolute times (startup, report) are not here: they
# tell machines apart, not versions.
GUARDS = {
    "loop": Guard(
        "loop_benchmark.json", "loop --models mlp --seconds 12 data=mnist",
        ("model", "batch_size", "loop"), tolerance=0.15,
    ),
    "loop of larger models": Guard(
        "loop_benchmark.json", "loop --models cnn,transformer --batch-sizes 64 --seconds 8 data=mnist",
        ("model", "batch_size", "loop"), tolerance=0.15,
    ),
    "norms": Guard(
        "norms_benchmark.json", "norms --modes both --shapes dense tokens --rounds 15",
        ("norm", "shape", "device", "compiled"), tolerance=0.25,
    ),
    "monitors": Guard(
        "monitors_benchmark.json", "monitors --models mlp --monitors light --pairs 10 data=mnist",
        ("monitors", "model", "device"), tolerance=0.05,
    ),
    "evaluation": Guard(
        "evaluation_benchmark.json", "evaluation --models mlp,cnn --rounds 3 data=mnist", ("model", "what", "device"),
        tolerance=0.15,
    ),
    "families": Guard(
        "families_benchmark.json", "families --families digits_mlp_64,mnist_mlp_256 --rounds 1",
        ("family", "replicas", "device"), more_is_better=True, tolerance=0.3,
    ),
}  # fmt: skip


def ratio_of(row: dict[str, Any]) -> float:
    return row["both"]["ours"]["ratio"] if "both" in row else row["ratio"]


def regressions(guard: Guard, committed: Rows, fresh: Rows, tolerance: float | None = None) -> dict[str, str]:
    """Name of a row -> one line, for each fresh ratio that is worse than the committed one by more than the tolerance.

    Raises ValueError if no fresh row has a committed one: nothing would be compared.
    """
    allowed = guard.tolerance if tolerance is None else tolerance
    before = {key_of(guard, row): ratio_of(row) for row in committed}
    pairs = {key: (before[key], ratio_of(row)) for row in fresh if (key := key_of(guard, row)) in before}
    if not pairs:
        raise ValueError(f"{guard.file}: has none of the rows of `{guard.command}`; measure it again")
    found = {}
    for key, (old, new) in pairs.items():
        worst = old / (1 + allowed) if guard.more_is_better else old * (1 + allowed)
        if new < worst if guard.more_is_better else new > worst:
            sign = ">=" if guard.more_is_better else "<="
            found[", ".join(key)] = f"{', '.join(key)}: {new:.2f}, was {old:.2f}, allowed {sign} {worst:.2f}"
    return found


def key_of(guard: Guard, row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(name, "cpu" if name == "device" else "")) for name in guard.same)
