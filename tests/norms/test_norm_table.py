"""docs/norms.md shows every norm as its file describes it, and the invariances that are measured."""

import documentation
import pytest


@pytest.mark.integration
def test_the_page_shows_every_norm_and_what_is_measured():
    page = (documentation.DOCS / "norms.md").read_text()
    assert documentation.filled(page, documentation.norms()) == page, (
        "run python scripts/documentation.py norms"
    )
