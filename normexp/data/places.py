"""The folders that are searched for standard data sets unless the user names one."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def standard_places() -> list[Path]:
    """$NORMEXP_DATA, `data` in the working directory, and `shared/data` beside the checkout."""
    named = [Path(os.environ["NORMEXP_DATA"]).expanduser()] if os.environ.get("NORMEXP_DATA") else []
    return [*named, Path("data"), CHECKOUT.parent / "shared" / "data"]
