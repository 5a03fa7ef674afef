"""Text that Markdown shows unchanged. Names may come from strangers, and must not act as markup in a page."""

import html
import re

SPECIAL = re.compile(r"[\\`*\[\]|$~]|(?<!\w)_|_(?!\w)|^[#>+-]")


def plain(text: str) -> str:
    """One line of Markdown that shows `text` unchanged, even in a table: no HTML, no link, no formula."""
    line = " ".join(text.split())
    return html.escape(SPECIAL.sub(r"\\\g<0>", line), quote=False)


def fenced(text: str) -> str:
    """A block of code. Its fence is longer than any fence in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"
