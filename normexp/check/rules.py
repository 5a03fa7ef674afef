"""Which findings count: `select`, `ignore` (everywhere, or at some layers), and a baseline of what is known."""

import fnmatch
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from normexp.check.result import SEVERITIES, Finding, Result
from normexp.config.options import suggest
from normexp.format import pluralize
from normexp.runs.files import write_text

VERSION = 1  # of a baseline's form
Known = dict[tuple[str, str], int]  # (id, layer or "") -> the index of its worst severity in SEVERITIES


@dataclass
class Rules:
    """What counts of a check.

    Attributes:
        ids: of all kinds of findings.
        select: ids that are asked, or one; all if it is empty.
        ignore: `id`, or `id@glob` for the layers whose paths match: `small_batch@stem.*`.
        known: what the baseline has.

    Raises ValueError for an id that does not exist.
    """

    ids: Sequence[str]
    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    known: Known = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.select, self.ignore = several(self.select), several(self.ignore)
        for id in self.select:
            require_known("select", id, self.ids)
        for word in self.ignore:
            require_known("ignore", word.partition("@")[0], self.ids)

    def asks(self, id: str) -> bool:
        """Whether a kind of finding is looked for."""
        return id in (self.select or self.ids)

    def judge(self, result: Result) -> None:
        """Move what is ignored or known out of a result's findings. A finding goes if all of its layers do, and keeps
        the others. A rule and a line of the baseline that meet nothing are said."""
        kept, met, seen = [], set(), set()
        for finding in result.findings:
            rest = []
            for layer in finding.layers or ("",):
                rules = [word for word in self.ignore if matches(word, finding.id, layer)]
                severity = self.known.get((finding.id, layer))
                known = severity is not None and severity <= SEVERITIES.index(finding.severity)
                met |= set(rules)
                seen |= {(finding.id, layer)} if severity is not None else set()
                rest += [] if rules or known else [layer]
            if not rest:
                result.ignored.append(finding)
            elif len(rest) < len(finding.layers):
                text = f"{finding.sentence} ({pluralize(len(finding.layers) - len(rest), 'other layer')} ignored.)"
                kept.append(replace(finding, layers=tuple(rest), sentence=text))
            else:
                kept.append(finding)
        result.findings = kept
        if idle := [word for word in self.ignore if "@" in word and word not in met]:
            result.facts.append(f"ignore: nothing is found for {', '.join(idle)}")
        if gone := len({id for id, _ in self.known.keys() - seen if self.asks(id)}):
            result.facts.append(f"baseline: {gone} of its findings are gone, in part or whole; write it anew")


def several(values: str | Sequence[str]) -> Sequence[str]:
    """Several words where one may be given alone."""
    return (values,) if isinstance(values, str) else values


def matches(word: str, id: str, layer: str) -> bool:
    """Whether `id` or `id@glob` names a finding at a layer."""
    name, at, glob = word.partition("@")
    return name == id and (not at or fnmatch.fnmatchcase(layer, glob))


def require_known(argument: str, id: str, ids: Iterable[str]) -> None:
    """Raise ValueError with one line unless a finding has this id."""
    if id not in (ids := list(ids)):
        raise ValueError(f"{argument}={id}: no such finding; {suggest(id, ids)}")


def read_baseline(path: str | Path) -> Known:
    """The findings that a file keeps. Raises ValueError with one line if it cannot be read."""
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))["findings"]
        known: Known = {}
        for row in rows:
            for layer in row["layers"] or [""]:
                severity = SEVERITIES.index(row["severity"])
                known[row["id"], layer] = min(severity, known.get((row["id"], layer), severity))
        return known
    except FileNotFoundError:
        raise ValueError(f"baseline={path}: no such file; --write-baseline writes it") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"baseline={path}: is no baseline; write it anew with --write-baseline") from None


def write_baseline(path: str | Path, findings: Sequence[Finding]) -> None:
    """Keep findings as known: JSON with a finding a row, for a diff that can be read."""
    rows = [{"id": f.id, "severity": f.severity, "layers": list(f.layers)} for f in findings]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(Path(path), json.dumps({"version": VERSION, "findings": rows}, indent=1) + "\n")
