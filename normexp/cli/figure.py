"""`normexp figure bn_percentiles`: a known figure about normalization by its name; `all` makes the whole page."""

import sys
import textwrap
from types import SimpleNamespace

from normexp.cli.command import command
from normexp.cli.help import columns
from normexp.config.process import command as to_type


def listing() -> str:
    """Each name with the question that it answers."""
    from normexp.figures.gallery import figures

    return "\n".join(["names:", *columns({name: one.title for name, one in figures().items()})])


@command(more=listing)
def main(asked: SimpleNamespace) -> None:
    """Make the figures that the words name."""
    from normexp.figures.gallery import chosen, make, write_page

    for one in chosen(asked.others):
        print(f"{one.name}: {one.title}", flush=True)
        plot = make(
            one, asked.out, small=asked.small, say=lambda words: print(f"  run {words}", file=sys.stderr)
        )
        for label, text in (("here", plot.seen), ("there", f"{one.paper} ({one.source})")):
            print(textwrap.fill(f"{label}: {text}", 110, initial_indent="  ", subsequent_indent="         "))
        print(f"  {asked.out / one.name}.png, .pdf, .svg, .json")
    print(f"page: {write_page(asked.out)}  (`{to_type('figure')} all` makes every figure)")
