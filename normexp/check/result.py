"""What a check found, as plain values. Imports nothing heavy."""

import json
import textwrap
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from normexp.format import printable

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class NotChecked(Exception):
    """Raised by a finding that lacks an input. The message says what to pass."""


@dataclass(frozen=True)
class Link:
    """A verdict of this project that supports a finding.

    Attributes:
        word: the verdict with its scope, as docs/verdicts.md has it.
    """

    id: str
    sentence: str
    word: str


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
        links: the verdicts that support it.
    """

    id: str
    severity: Severity
    sentence: str
    number: float
    quantity: str
    fix: str
    layers: tuple[str, ...] = ()
    why: str = ""
    links: tuple[Link, ...] = ()

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

    def lines(self, most: int = 5) -> list[str]:
        """The result in at most `most` lines, worst first."""
        shown = [f for f in self.findings if f.severity != "note"] or self.findings
        room = most - 1
        lines = [finding.line() for finding in shown[:room]]
        if len(shown) > room:
            lines[-1] = f"and {len(shown) - room + 1} more; `normexp.check(module, loader)` lists all"
        return [printable(line) for line in (f"normexp check, {self.headline()}", *lines)]

    def to_json(self) -> str:
        """Everything as JSON. A number that is not finite becomes null."""
        text = json.dumps(asdict(self) | {"ok": self.ok})
        return json.dumps(json.loads(text, parse_constant=lambda _: None), indent=1)

    def page(self, folder: str | Path = "outputs/check", *, made_by: str = "normexp.check(...)") -> Path:
        """Write `index.html`. Returns its path."""
        from normexp.check.show import write_page

        return write_page(self, Path(folder), made_by=made_by)

    def __str__(self) -> str:
        fixes = (
            f"{f.severity} {f.id}: {f.sentence}\n{textwrap.indent(f.fix, '    ')}" for f in self.findings
        )
        return printable("\n".join([self.headline(), *fixes]))

    __repr__ = __str__
