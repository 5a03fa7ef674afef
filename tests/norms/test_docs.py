"""docs/norms.md is generated; this finds it when a norm was added or renamed since."""

from pathlib import Path

from norms.layers import CONFIGS, NAMES

PAGE = Path(__file__).parents[2] / "docs" / "norms.md"


def test_every_norm_is_in_the_table_with_its_comment():
    page = PAGE.read_text()
    for name in NAMES:
        comment = (CONFIGS / f"{name}.yaml").read_text().splitlines()[0].removeprefix("# ")
        assert any(f"`{name}`" in line and comment in line for line in page.splitlines()), (
            f"{name} is not in docs/norms.md as it is; run python scripts/norm_table.py"
        )
