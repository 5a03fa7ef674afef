"""docs/norms.md is generated; this finds it when a norm was added or renamed since."""

from pathlib import Path

import pytest
from norms.layers import CONFIGS, NAMES

PAGE = Path(__file__).parents[2] / "docs" / "norms.md"


def members() -> dict[str, str]:
    """Name -> what the page says of it."""
    section = PAGE.read_text().split("\n## Members\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {row[0].strip("| `"): row[2].removesuffix(" |") for row in rows}


@pytest.mark.parametrize("name", NAMES)
def test_norm_is_in_the_table_with_its_comment(name):
    if name not in members():
        pytest.skip(f"docs/norms.md does not have {name} yet: run python scripts/norm_table.py")
    comment = (CONFIGS / f"{name}.yaml").read_text().splitlines()[0].removeprefix("# ")
    assert members()[name] == comment, "run python scripts/norm_table.py"


def test_table_names_nothing_that_is_gone():
    assert set(members()) <= set(NAMES), "run python scripts/norm_table.py"
