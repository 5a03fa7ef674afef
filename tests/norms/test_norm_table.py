"""docs/norms.md shows every norm as its file describes it, and the invariances that are measured."""

import norm_table


def test_the_page_shows_every_norm_and_what_is_measured():
    page = norm_table.PAGE.read_text()
    assert norm_table.members() in page, "run python scripts/norm_table.py"
    assert norm_table.invariances() in page, "run python scripts/norm_table.py"
