"""`normexp figure bn_percentiles`: a known figure about normalization by its name; `all` makes the whole page."""

import sys
import textwrap
from pathlib import Path

from normexp.cli.help import columns


def names_in_lines() -> str:
    """Each name with the question that it answers, for the help."""
    from normexp.figures.gallery import figures

    return "\n".join(["names:", *columns({name: entry.title for name, entry in figures().items()})])


def figure(*names: str, out: Path = Path("outputs/figures"), small: bool = False, pdf: bool = False) -> None:
    """Known figures about normalization by name, as PNG and numbers (JSON), each with one sentence about what is
    seen and one about what its paper shows.

    - `normexp figure bn_percentiles gn_batch_size`
    - `normexp figure all`

    Args:
        names: of figures, or all
        out: a folder
        small: tiny sizes, to see that it works
        pdf: write PDF, too
    """
    from normexp.figures.gallery import chosen, make, write_page

    for entry in chosen(list(names)):
        print(f"{entry.name}: {entry.title}", flush=True)
        plot = make(
            entry, out, small=small, pdf=pdf, say=lambda words: print(f"  run {words}", file=sys.stderr)
        )
        for label, text in (("here", plot.seen), ("there", f"{entry.paper} ({entry.source})")):
            print(textwrap.fill(f"{label}: {text}", 110, initial_indent="  ", subsequent_indent="         "))
        print(f"  {out / entry.name}.png, .json")
    print(f"page: {write_page(out)}  (`normexp figure all` makes every figure)")
