"""What a check found, as plain values, as a table in the terminal, and as a page."""

import io
import json
import textwrap
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from normexp.format import printable
from normexp.runs.files import write_text

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
COLORS = {"error": "bold red", "warning": "bold yellow", "note": "cyan"}


class NotChecked(Exception):
    """Raised by a finding that lacks an input. The message says what to pass."""


# Of rich's export; it follows the reader's light or dark, and a phone scrolls the table alone.
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>normexp check</title>
<style>
{stylesheet}
:root {{ color-scheme: light dark; }}
body {{ margin: 1rem; }}
pre {{ overflow-x: auto; font: 13px/1.35 ui-monospace, "DejaVu Sans Mono", monospace; }}
</style></head>
<body><pre><code style="font: inherit">{code}</code></pre></body></html>
"""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing, about the norms of a network.

    Attributes:
        id: names the kind of finding, for scripts.
        severity: error (a pass fails, or the output means nothing), warning (costs accuracy or speed where the number
            is as it was measured), note (true, and harmless by itself).
        sentence: what was found, with the number.
        number: what was measured on this network.
        quantity: what the number is, with its unit.
        fix: the line of code that mends it.
        layers: paths of the layers concerned.
        why: the reason, in a sentence or two.
        verdicts: the ids of the verdicts that support it, in docs/verdicts.md.
    """

    id: str
    severity: Severity
    sentence: str
    number: float
    quantity: str
    fix: str
    layers: tuple[str, ...] = ()
    why: str = ""
    verdicts: tuple[str, ...] = ()

    def line(self) -> str:
        """The finding in one line, with the first line of its fix."""
        return f"{self.severity} {self.id}: {self.sentence} Fix: {self.fix.splitlines()[0]}"

    def where(self, most: int = 3) -> str:
        """The first layers, and how many there are: `layer1.bn1, layer1.bn2, ... (20)`."""
        shown = ", ".join(self.layers[:most])
        return shown if len(self.layers) <= most else f"{shown}, ... ({len(self.layers)})"


@dataclass
class Result:
    """The findings of a check, worst first.

    Attributes:
        name: of the network.
        findings: what was found.
        not_checked: id -> what to pass.
        healthy: ids that were asked and found nothing.
        facts: on what it was measured.
        seconds: that the check took.
    """

    name: str
    findings: list[Finding] = field(default_factory=list)
    not_checked: dict[str, str] = field(default_factory=dict)
    healthy: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __getitem__(self, name: str) -> Finding:
        """The finding with this id.

        Raises KeyError with what is known of it if it was not found.
        """
        if found := [finding for finding in self.findings if finding.id == name]:
            return found[0]
        state = self.not_checked.get(name) or ("healthy" if name in self.healthy else "no such finding")
        raise KeyError(f"{name}: {state}")

    def __contains__(self, name: object) -> bool:
        return any(finding.id == name for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """How many findings have this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def ok(self) -> bool:
        """Whether there is no error and no warning. Notes are allowed."""
        return not (self.count("error") or self.count("warning"))

    def headline(self) -> str:
        """One line: how many findings of each severity, and how many were not checked."""
        counts = [(self.count(s), s) for s in SEVERITIES]
        listed = ", ".join(f"{n} {s}{'s' * (n != 1)}" for n, s in counts if n) or "nothing found"
        return f"{self.name}: {listed}; {len(self.healthy)} healthy, {len(self.not_checked)} not checked"

    def to_json(self) -> str:
        """Everything as JSON. A number that is not finite becomes null."""
        text = json.dumps(asdict(self) | {"ok": self.ok})
        return json.dumps(json.loads(text, parse_constant=lambda _: None), indent=1)

    def page(self, folder: str | Path = "outputs/check", *, made_by: str = "normexp.check(...)") -> Path:
        """Write the table as `index.html` under a folder. Returns its path."""
        console, file = Console(record=True, width=140, file=io.StringIO()), Path(folder) / "index.html"
        show(self, console)
        console.print(shown(f"Made by {made_by} in {self.seconds:.1f} s.", style="dim"))
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, console.export_html(code_format=PAGE))
        return file

    def __str__(self) -> str:
        fixes = (
            f"{f.severity} {f.id}: {f.sentence}\n{textwrap.indent(f.fix, '    ')}" for f in self.findings
        )
        return printable("\n".join([self.headline(), *fixes]))

    __repr__ = __str__


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
    for name, what in result.not_checked.items():
        console.print(shown(f"not checked: {name}: {what}", style="dim"))


def shown(text: str, style: str = "") -> Text:
    """Text for rich, made printable: it may hold names and errors from the user's modules."""
    return Text(printable(text), style)


def details(finding: Finding) -> Group:
    """The sentence, the layers, the reason with its verdicts, and the fix."""
    parts = [shown(finding.sentence)]
    if finding.layers:
        parts.append(shown(f"where: {finding.where()}", style="dim"))
    verdicts = f" Evidence: normexp verify claim={finding.verdicts[0]}" if finding.verdicts else ""
    parts.append(shown(f"why: {finding.why}{verdicts}", style="dim"))
    return Group(*parts, shown(f"fix: {finding.fix}", style="bold"))
