"""Tables for a paper, in LaTeX with the rules of the package booktabs."""

import re
from collections.abc import Sequence

import pandas as pd

from normexp.report.study import Study
from normexp.report.tables import cells_of, emphasized, heads, how_to_read

# Signs that LaTeX reads as commands, and those of our tables that its fonts lack
SIGNS = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "−": "$-$", "±": r"$\pm$", "·": r"$\cdot$", "–": "--",
    "×": r"$\times$", "<": "$<$", ">": "$>$", "|": r"\textbar{}", "∞": r"$\infty$",
    "[": "{[}", "*": "{*}",  # behind the end of a line, they would be its options
}  # fmt: skip
BOLD = re.compile(r"\*\*(.*)\*\*")


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is, on one line."""
    return "".join(SIGNS.get(sign, sign) for sign in " ".join(text.split()))


def booktabs(head: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    r"""A table: the first column to the left, the others to the right. A cell `**x**` is bold. The preamble needs
    `\usepackage{booktabs}`."""

    def cell(text: str) -> str:
        bold = BOLD.fullmatch(text)
        return rf"\textbf{{{escaped(bold[1])}}}" if bold else escaped(text)

    def line(cells: Sequence[str]) -> str:
        return f"{' & '.join(map(cell, cells))} \\\\"

    begin = rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}"
    lines = [begin, r"\toprule", line(head), r"\midrule", *map(line, rows), r"\bottomrule", r"\end{tabular}"]
    note = f"% {' '.join(note.split())}\n" if note else ""
    return note + "\n".join(lines) + "\n"


def comparison_in_latex(study: Study, table: pd.DataFrame) -> str:
    """The table of a comparison: a row for each arm, a column for each level."""
    rows = [[arm, *map(emphasized, cells)] for arm, cells in cells_of(study, table).items()]
    return booktabs(heads(study, "/"), rows, how_to_read(study, table))
