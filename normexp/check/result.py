"""What a check found, as plain values, as a table in the terminal, and as a page."""

import io
import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.text import Text

from normexp.format import pluralize, printable
from normexp.runs.files import finite_json, write_text

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
MOST_NORMS = 12  # lines of norms that the terminal shows
COLORS = {"error": "bold red", "warning": "bold yellow", "note": "cyan"}


class NotChecked(Exception):
    """Raised by a finding that lacks an input. The message says what to pass."""


SCHEMA = 1  # of the JSON; raised when a key goes or means something else

# Of rich's export; it follows the reader's light or dark, and a phone scrolls the text alone.
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
        named = ", ".join(self.layers[:most])
        return named if len(self.layers) <= most else f"{named}, ... ({len(self.layers)})"


@dataclass
class Result:
    """The findings of a check, worst first.

    Attributes:
        name: of the network.
        findings: what was found.
        not_checked: id -> what to pass.
        healthy: ids that were asked and found nothing.
        ignored: findings that `ignore=` or the baseline knows; they do not count.
        sources: layer -> `file.py:12`, where its class, or the class that holds it, is written. A path inside the
            present folder is relative.
        source: the same of the whole network, if the command line named it.
        norms: over what each norm normalizes, and its types, in words; norms that are alike are one line.
        facts: on what it was measured.
        seconds: that the check took.
    """

    name: str
    findings: list[Finding] = field(default_factory=list)
    not_checked: dict[str, str] = field(default_factory=dict)
    healthy: list[str] = field(default_factory=list)
    norms: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    seconds: float = 0.0
    ignored: list[Finding] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    source: str = ""

    def __getitem__(self, name: str) -> Finding:
        """The finding with this id.

        Raises KeyError with what is known of it if it was not found.
        """
        if found := [finding for finding in self.findings if finding.id == name]:
            return found[0]
        state = self.not_checked.get(name) or ("healthy" if name in self.healthy else "no such finding")
        raise KeyError(f"{name}: {state}")

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

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
        listed = ", ".join(pluralize(n, s) for n, s in counts if n) or "nothing found"
        known = f", {len(self.ignored)} ignored" if self.ignored else ""
        return (
            f"{self.name}: {listed}; {len(self.healthy)} healthy, {len(self.not_checked)} not checked{known}"
        )

    def source_of(self, finding: Finding) -> tuple[str, int]:
        """(file, line) of the code of a finding's first layer: in the present folder if any is, else where the network
        is written, else the layer's class; ("", 0) if nothing is known."""
        found = [self.sources[layer] for layer in finding.layers if layer in self.sources]
        relative = [source for source in found if not Path(source).is_absolute()]
        file, _, line = next(iter([*relative, *filter(None, [self.source]), *found]), "").rpartition(":")
        return file, int(line or 0)

    def to_json(self) -> str:
        """Everything as JSON. A number that is not finite becomes null."""
        return json.dumps(finite_json({"schema": SCHEMA} | asdict(self) | {"ok": self.ok}), indent=1)

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
    """Print the findings, worst first, and what was not checked: prose as wide as the terminal, code as it is."""
    console = console or Console()

    def say(*parts: Text, code: bool = False) -> None:
        console.print(Text.assemble(*parts), soft_wrap=code or not console.is_terminal)

    say(shown(result.headline(), style="bold"))
    for fact in result.facts:
        say(shown(fact, style="dim"))
    for line in result.norms[:MOST_NORMS]:
        say(shown(f"  {line}", style="dim"))
    if (more := len(result.norms) - MOST_NORMS) > 0:
        say(shown(f"  and {pluralize(more, 'more line')}; --json has them", style="dim"))
    for finding in result.findings:
        say()
        say(shown(f"{finding.severity} {finding.id}: ", COLORS[finding.severity]), shown(finding.sentence))
        for label, text in details(finding, result):
            say(shown(f"  {label}: {text}", style="dim"))
        say(shown("  fix:", style="dim"))
        say(shown(finding.fix, style="bold"), code=True)  # at the margin, where it can be copied
    say()
    if result.healthy:
        say(shown(f"healthy: {', '.join(result.healthy)}", style="green"))
    if result.ignored:
        say(shown(f"ignored: {', '.join(finding.id for finding in result.ignored)}", style="dim"))
    for name, what in result.not_checked.items():
        say(shown(f"not checked: {name}: {what}", style="dim"))


def shown(text: str, style: str = "") -> Text:
    """Text for rich, made printable: it may hold names and errors from the user's modules."""
    return Text(printable(text), style)


def details(finding: Finding, result: Result) -> Iterator[tuple[str, str]]:
    """The layers, the reason, and the verdict that supports it, each with its label."""
    if finding.layers:
        file, line = result.source_of(finding)
        yield (
            "where",
            finding.where() + (f" [{file}:{line}]" if file and not Path(file).is_absolute() else ""),
        )
    yield "why", finding.why
    if finding.verdicts:
        yield "evidence", f"normexp verify claim={finding.verdicts[0]} (kept here; nothing is trained)"
