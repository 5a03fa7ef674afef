"""`normexp figure bn_percentiles`: a known figure about normalization by its name; `all` makes the whole page."""

import argparse
import sys
import textwrap
from pathlib import Path

from normexp.config.process import command, one_line_errors, prepare, program


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the command line. Argparse ends the process for an unknown one."""
    parser = argparse.ArgumentParser(
        prog=program("figure"),
        description=(
            "Known figures about normalization by name, as PNG, PDF, SVG and numbers (JSON), each with one"
            " sentence about what is seen and one about what its paper shows."
        ),
        epilog=listing() if {"-h", "--help"} & set(arguments) else "",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="names of figures, or all")
    parser.add_argument(
        "--out", type=Path, default=Path("outputs/figures"), help="a folder (default: %(default)s)"
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that it works")
    return parser.parse_args(arguments)


def listing() -> str:
    """Each name with the question that it answers."""
    from normexp.figures.gallery import figures

    found = figures()
    width = max(map(len, found))
    return "\n".join(["names:", *(f"  {name:<{width}}  {one.title}" for name, one in found.items())])


def main(arguments: list[str]) -> int:
    """Make the figures that the arguments name. Returns the exit status."""
    prepare()
    options = parse(arguments)
    with one_line_errors():
        from normexp.figures.gallery import chosen, make, write_page

        for one in chosen(options.names):
            print(f"{one.name}: {one.title}", flush=True)
            plot = make(
                one,
                options.out,
                small=options.small,
                say=lambda words: print(f"  run {words}", file=sys.stderr),
            )
            for label, text in (("here", plot.seen), ("there", f"{one.paper} ({one.source})")):
                print(
                    textwrap.fill(f"{label}: {text}", 110, initial_indent="  ", subsequent_indent="         ")
                )
            print(f"  {options.out / one.name}.png, .pdf, .svg, .json")
        print(f"page: {write_page(options.out)}  (`{command('figure')} all` makes every figure)")
    return 0
