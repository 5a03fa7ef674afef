"""Tables in LaTeX: they hold what the Markdown holds, and every sign is printed as it is."""

import re
import string

import pytest
from fabricated import write_study

from normexp.report.latex import booktabs, comparison_in_latex, escaped
from normexp.report.study import open_study
from normexp.report.tables import comparison, markdown

PRINTED = {
    r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\textbar{}": "|", "$-$": "−",
    r"$\pm$": "±", "{[}": "[", "{*}": "*", r"$\cdot$": "·", "--": "–", r"$\times$": "×", "$<$": "<", "$>$": ">",
    **{f"\\{sign}": sign for sign in "&%$#_{}"},
}  # fmt: skip


def printed(text):
    """What LaTeX prints of a text, by a reader that knows these commands alone."""
    found = ""
    while text:
        command = next((own for own in PRINTED if text.startswith(own)), None)
        if command is None:
            assert text[0] not in "\\&%$#_{}~^", text
        found, text = found + PRINTED.get(command, text[0]), text[len(command or text[0]) :]
    return found


@pytest.mark.parametrize(
    "text", [string.punctuation.replace("-", ""), "a_b & 95.6 ± 1.8 [−1 · 2]", "100%", "–×"]
)
def test_every_sign_is_printed_as_it_is(text):
    assert printed(escaped(text)) == text
    assert "\n" not in escaped(f"{text}\n{text}")


def test_table_has_its_rules_and_a_cell_for_each_column():
    lines = booktabs(["a", "b", "c"], [["x_1", "**2%**", "3"], ["y", "", "4"]], "two\nlines").splitlines()
    assert lines[0] == "% two lines"
    assert lines[1] == r"\begin{tabular}{lrr}"
    assert [line for line in lines if re.fullmatch(r"\\(top|mid|bottom)rule", line)] == [
        r"\toprule", r"\midrule", r"\bottomrule",
    ]  # fmt: skip
    rows = [line for line in lines if line.endswith(r"\\")]
    assert [line.count(" & ") for line in rows] == [2, 2, 2]
    assert r"x\_1 & \textbf{2\%} & 3 \\" in rows


def test_comparison_has_the_cells_of_the_markdown(tmp_path):
    study = open_study(write_study(tmp_path))
    table = comparison(study)
    lines = [line for line in comparison_in_latex(study, table).splitlines() if "&" in line]
    rows = [line[: -len(r" \\")].split(" & ") for line in lines]
    text = markdown(study, table).split("\n\n")[0].splitlines()
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text]
    shown = [[re.sub(r"\\(.)|\*\*", r"\1", cell).strip() for cell in row] for row in cells]
    plain = [[printed(re.sub(r"\\textbf{(.*)}", r"\1", cell)) for cell in row] for row in rows]
    assert plain[1:] == shown[2:]
    assert plain[0][1:] == shown[0][1:]
