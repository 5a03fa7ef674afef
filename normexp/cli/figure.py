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

    return "\n".join(["names:", *columns({name: entry.title for name, entry in figures().items()})])


@command("figure", more=listing)
def main(args: SimpleNamespace) -> None:
    """Make the figures that the words name."""
    from normexp.figures.gallery import chosen, make, write_page

    for entry in chosen(args.others):
        print(f"{entry.name}: {entry.title}", flush=True)
        plot = make(
            entry, args.out, small=args.small, say=lambda words: print(f"  run {words}", file=sys.stderr)
        )
        for label, text in (("here", plot.seen), ("there", f"{entry.paper} ({entry.source})")):
            print(textwrap.fill(f"{label}: {text}", 110, initial_indent="  ", subsequent_indent="         "))
        print(f"  {args.out / entry.name}.png, .pdf, .json")
    print(f"page: {write_page(args.out)}  (`{to_type('figure')} all` makes every figure)")
