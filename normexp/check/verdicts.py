"""The words of this project's verdicts, as docs/verdicts.md has them, for the links of a finding."""

import re
from functools import cache
from pathlib import Path

from normexp.check.result import Link

PACKAGE = Path(__file__).parents[1]
PLACES = (
    PACKAGE.parent / "docs" / "verdicts.md",
    PACKAGE / "docs" / "verdicts.md",
)  # in a checkout; in the wheel
# | [P10](file) | the sentence. *source* note | **word** | ...
ROW = re.compile(r"\| \[?(\w+)\]?(?:\(\S*\))? \| (.+?) \*[^|]*\| \**([^|*]+)\**")


@cache
def _rows() -> dict[str, Link]:
    text = next((path.read_text() for path in PLACES if path.is_file()), "")
    found = [match for line in text.splitlines() if (match := ROW.match(line))]
    return {match[1]: Link(match[1], match[2].replace("\\*", "*"), match[3].strip()) for match in found}


def links(ids: tuple[str, ...]) -> tuple[Link, ...]:
    """The verdicts with these ids; those that the page does not have are left out."""
    return tuple(_rows()[name] for name in ids if name in _rows())
