"""The findings as a table in the terminal, and as a page."""

import io
from pathlib import Path

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from normexp.check.result import Finding, Result
from normexp.format import printable
from normexp.runs.files import write_text

COLORS = {"error": "bold red", "warning": "bold yellow", "note": "cyan"}


def show(result: Result, console: Console | None = None) -> None:
    """Print the findings, worst first, and what was not checked."""
    console = console or Console()
    console.print(shown(result.headline(), style="bold"))
    for fact in result.facts:
        console.print(shown(fact, style="dim"))
    if result.findings:
        table = Table(show_edge=False, show_lines=True, pad_edge=False)
        for column in ("", "finding"):
            table.add_column(column, no_wrap=True)
        table.add_column("what was measured, why, and what mends it")
        for finding in result.findings:
            severity = shown(finding.severity, style=COLORS[finding.severity])
            table.add_row(severity, shown(finding.id), details(finding))
        console.print(table)
    if result.healthy:
        console.print(shown(f"healthy: {', '.join(result.healthy)}", style="green"))
    if result.not_checked:
        console.print(shown("not checked:"))
        rows = Table.grid(padding=(0, 2))
        for name, what in result.not_checked.items():
            rows.add_row(shown(name), shown(what, style="dim"))
        console.print(Padding(rows, (0, 0, 0, 2)))


def write_page(result: Result, folder: Path, *, made_by: str) -> Path:
    """Write the table as `index.html` under a folder. Returns the page's path."""
    console = Console(record=True, width=140, file=io.StringIO())
    show(result, console)
    console.print(shown(f"Made by {made_by} in {result.seconds:.1f} s.", style="dim"))
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "index.html", console.export_html())
    return folder / "index.html"


def shown(text: str, style: str = "") -> Text:
    """A text that may hold names and errors of a stranger's modules."""
    return Text(printable(text), style)


def details(finding: Finding) -> Group:
    """The sentence, the layers, the reason with its verdicts, and the fix."""
    parts = [shown(finding.sentence)]
    if finding.layers:
        parts.append(shown(f"in {finding.where()}", style="dim"))
    parts.append(shown(f"why: {finding.why}", style="dim"))
    if finding.links:
        first, *others = finding.links
        more = f" Also {', '.join(link.id for link in others)}." if others else ""
        parts.append(shown(f"{first.id}, {first.word}: {first.sentence}{more}", style="dim"))
    parts += [shown(line, style="bold") for line in finding.fix.splitlines()]
    return Group(*parts)
