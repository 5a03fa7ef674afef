"""The findings as a table in the terminal."""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from normexp.check.result import Finding, Result
from normexp.format import printable

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


def shown(text: str, style: str = "") -> Text:
    """A text that may hold names and errors of a stranger's modules."""
    return Text(printable(text), style)


def details(finding: Finding) -> RenderableType:
    """The sentence, the layers, the reason with its verdicts, and the fix."""
    parts: list[RenderableType] = [shown(finding.sentence)]
    if finding.layers:
        parts.append(shown(f"in {finding.where()}", style="dim"))
    parts.append(shown(f"why: {finding.why}", style="dim"))
    if finding.links:
        first, *others = finding.links
        more = f" Also {', '.join(link.id for link in others)}." if others else ""
        parts.append(shown(f"{first.id}, {first.word}: {first.sentence}{more}", style="dim"))
    parts += [shown(line, style="bold") for line in finding.fix.splitlines()]
    return Group(*parts)
