"""docs/norms.md shows every norm as its file describes it, and the invariances that are measured."""

import documentation
import pytest
from doc_tables import DOCS, filled


@pytest.mark.integration
def test_the_page_shows_every_norm_and_what_is_measured():
    page = (DOCS / "norms.md").read_text()
    assert filled(page, documentation.norms()) == page, "run python scripts/documentation.py norms"
