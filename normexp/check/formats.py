"""The formats of a check's result, with GitHub's annotations and SARIF; and what one finding means."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import normexp
from normexp.check.finding import KINDS, declared
from normexp.check.result import Finding, Result, show
from normexp.check.rules import require_known
from normexp.format import printable

GITHUB = {"error": "error", "warning": "warning", "note": "notice"}
MESSAGE = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})  # how an annotation writes these signs
PROPERTY = MESSAGE | str.maketrans({":": "%3A", ",": "%2C"})


def to_github(result: Result) -> str:
    """A line `::warning file=net.py,line=14,title=...::...` for each finding, and the headline."""
    lines = [_annotation(result, finding) for finding in result.findings]
    return "\n".join([*lines, printable(result.headline())])


def _annotation(result: Result, finding: Finding) -> str:
    file, number = result.source_of(finding)
    location = {"file": file, "line": str(number)} if file else {}
    properties = location | {"title": f"normexp {finding.id}"}
    listed = ",".join(f"{key}={printable(value.translate(PROPERTY))}" for key, value in properties.items())
    return f"::{GITHUB[finding.severity]} {listed}::{printable(message(finding).translate(MESSAGE))}"


def message(finding: Finding) -> str:
    """The sentence, the layers and the fix."""
    where = f" Where: {finding.where()}." if finding.layers else ""
    return f"{finding.sentence}{where}\nFix: {finding.fix}"


def to_sarif(result: Result) -> str:
    """The findings in the Static Analysis Results Interchange Format 2.1.0 (OASIS, 2020): a result each, at the code of
    its first layer, with every layer as a logical location. Ignored findings are there as suppressed."""
    kinds = declared()
    tool = {
        "name": "normexp check",
        "version": normexp.__version__,
        "rules": [
            {
                "id": id,
                "shortDescription": {"text": id.replace("_", " ").capitalize() + "."},
                "fullDescription": {"text": kind.why},
            }
            for id, kind in kinds.items()
        ],
    }
    results = [_row(result, finding, list(kinds)) for finding in result.findings + result.ignored]
    for row in results[len(result.findings) :]:
        row["suppressions"] = [{"kind": "external"}]
    run = {"tool": {"driver": tool}, "columnKind": "unicodeCodePoints", "results": results}
    schema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1, allow_nan=False)


def _row(result: Result, finding: Finding, ids: list[str]) -> dict[str, Any]:
    file, line = result.source_of(finding)
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": layer, "kind": "member"} for layer in finding.layers]
    }
    if file:
        uri = Path(file).as_uri() if Path(file).is_absolute() else file
        location["physicalLocation"] = {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}
    # The same finding on the same layers is the same alert, also when a number or a line moves.
    same = hashlib.sha256("\n".join([result.name, finding.id, *finding.layers]).encode()).hexdigest()
    return {
        "ruleId": finding.id,
        "ruleIndex": ids.index(finding.id),
        "level": finding.severity,
        "message": {"text": message(finding)},
        "locations": [location],
        "partialFingerprints": {"layers/v1": same[:32]},
    }


# `--format` of normexp check -> what prints a result; normexp/cli/check.py says what each is for
FORMATS: dict[str, Callable[[Result], None]] = {
    "text": show,
    "json": lambda result: print(result.to_json()),
    "github": lambda result: print(to_github(result)),
    "sarif": lambda result: print(to_sarif(result)),
}


def explained(id: str) -> str:
    """What a finding is, why it matters, its limits, its fix and its verdicts. Raises ValueError for an unknown id."""
    declared()
    require_known("--explain", id, KINDS)
    return "\n".join(_explanation(id))


def _explanation(id: str) -> Iterator[str]:
    kind = KINDS[id]
    cases = [kind.texts, *kind.texts.get("cases", {}).values()]

    def text_of(key: str) -> str:
        texts = dict.fromkeys(re.sub(r"{[^}]*}", "...", str(case[key])) for case in cases if key in case)
        return "\n    ".join(texts)

    yield f"{id} ({', '.join(dict.fromkeys(case['severity'] for case in cases if 'severity' in case))})"
    yield f"  what:   {text_of('sentence')}"
    yield f"  why:    {kind.why}"
    yield f"  number: {text_of('quantity')}"
    for name, (value, unit, reason) in kind.texts.get("limits", {}).items():
        yield f"  limit:  {name} = {value} {unit}; {reason}"
    yield f"  fix:    {text_of('fix')}"
    if kind.verdicts:
        yield f"  evidence: normexp verify claim={','.join(kind.verdicts)}"
    yield f"  ignore: --ignore {id}, or --ignore '{id}@layer.*' for some layers; --select {id} asks nothing else"
