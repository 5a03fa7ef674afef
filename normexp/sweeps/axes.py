"""The keys that vary over cells, one line each."""

from collections.abc import Sequence

from normexp.sweeps.cell import Cell

SHOWN = 12  # most values of an axis that are written out


def axes(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Key -> its values in order."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        for part in cell.name.split():
            key, _, value = part.partition("=")
            found.setdefault(key, {})[value] = None
    return {key: list(values) for key, values in found.items()}


def shortened(values: Sequence[str]) -> str:
    """`0 … 199` for consecutive whole numbers. Of many other values, the first ones and the last."""
    if len(values) > 3 and all(map(str.isdecimal, values)):
        numbers = list(map(int, values))
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return f"{values[0]} … {values[-1]}"
    if len(values) > SHOWN:
        return f"{', '.join(values[: SHOWN - 1])}, … {values[-1]} ({len(values)} values)"
    return ", ".join(values)
