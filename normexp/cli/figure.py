"""`normexp figure bn_percentiles`: a known figure about normalization by its name; `all` makes the whole page."""

import sys
from pathlib import Path

from normexp.cli.help import columns
from normexp.format import tell


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
        tell(f"{entry.name}: {entry.title}")
        plot = make(
            entry, out, small=small, pdf=pdf, say=lambda words: print(f"  run {words}", file=sys.stderr)
        )
        tell(f"  here:   {plot.seen}", f"  there:  {entry.paper} ({entry.source})")
        tell(f"  {out / entry.name}.png, .json")
    tell(f"page: {write_page(out)} (`normexp figure all` makes every figure)")
