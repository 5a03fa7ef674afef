"""A kind of finding: a function that measures, and what findings/findings.yaml says of its numbers."""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from normexp.check.network import Network
from normexp.check.result import Finding, NotChecked
from normexp.check.trace import Call, NormSite

FOLDER = Path(__file__).parent / "findings"
TEXTS: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "findings.yaml").read_text(encoding="utf-8"))
MOST_NAMED = 8  # layers in a line of code
ONE = re.compile(
    r"(?<!of )\b1 (norm|parameter|tensor|channel|sample|value)s\b"
)  # the texts count in the plural; `1 of 1 norms` may stay


class Found:
    """What the function of a finding measured.

    Attributes:
        layers: the layers concerned, as paths, norms or calls of norms; each is named once.
        number: see `Finding`; by default how many layers there are.
        case: which of the finding's texts are meant.
        path: the worst of the layers, by default the first.
        fields: what else stands in the texts. A function gives the word for the worst layer.
    """

    def __init__(
        self,
        layers: Iterable[str | NormSite | Call] = (),
        number: float | None = None,
        case: str = "",
        path: str = "",
        **fields: Any,
    ) -> None:
        self.layers = tuple(dict.fromkeys(map(path_of, layers)))
        self.number = len(self.layers) if number is None else number
        self.case, self.fields, self.path = case, fields, path or next(iter(self.layers), "")


def path_of(layer: str | NormSite | Call) -> str:
    """The path of a layer, a norm, or the norm of a call."""
    norm = layer.norm if isinstance(layer, Call) else layer
    return norm if isinstance(norm, str) else norm.path


def above(
    measured: Iterable[tuple[str | NormSite | Call, float]], limit: float = 0.0, case: str = "", **fields: Any
) -> Iterator[Found]:
    """The largest number above a limit, with all layers that are; nothing if there is none. A layer counts with the
    largest of its numbers."""
    largest: dict[str, float] = {}
    for layer, number in measured:
        path = path_of(layer)
        largest[path] = max(number, largest.get(path, number))
    if layers := [path for path, number in largest.items() if number > limit]:
        worst = max(layers, key=largest.__getitem__)
        yield Found(layers, largest[worst], case, worst, **fields)


Look = Callable[[Network, SimpleNamespace], Iterable[Found]]


class Kind:
    """A kind of finding: its function and its texts.

    Attributes:
        limits: the thresholds by name.
        why, verdicts: the reason, and the ids of the verdicts that support it.
    """

    def __init__(self, look: Look) -> None:
        self.id, self.look = look.__name__, look
        self.texts = TEXTS[self.id]
        self.why, self.verdicts = " ".join((look.__doc__ or "").split()), tuple(self.texts["verdicts"])
        self.limits = SimpleNamespace(**{name: row[0] for name, row in self.texts.get("limits", {}).items()})

    def findings(self, network: Network) -> list[Finding]:
        """What it finds in a network, in words. Raises NotChecked if an input is absent and nothing was found."""
        found = []
        try:
            for measured in self.look(network, self.limits):
                found.append(self.in_words(measured, network))
            if not found and self.id != "pass_fails":
                network.require_watched(self.texts.get("of") == "running statistics")
        except NotChecked:
            if not found:
                raise
        return found

    def in_words(self, measured: Found, network: Network) -> Finding:
        """The finding in words."""
        number, layers, path = measured.number, measured.layers, measured.path
        texts = self.texts | self.texts.get("cases", {}).get(measured.case, {})
        fields: dict[str, Any] = {"number": number, "count": len(layers)}
        fields["of"] = len(network.norms) + len(network.attempt.heard)
        fields |= {key: word(path) if callable(word) else word for key, word in measured.fields.items()}
        fields |= {"path": path, "code": network.code(path), "codes": codes(network, layers, self.id)}
        fields["paths"] = listed(layers, self.id)
        parts = {key: texts[key].format(**fields) for key in ("severity", "sentence", "quantity", "fix")}
        parts["sentence"] = ONE.sub(r"1 \1", parts["sentence"])
        parts["fix"] = parts["fix"].removeprefix("  # or ")  # of a text that began with a word that is empty
        return Finding(self.id, number=number, layers=layers, why=self.why, verdicts=self.verdicts, **parts)


def listed(paths: Sequence[str], id: str = "") -> str:
    """Paths as code: a list of them, or where the result has those of a finding if they are many."""
    return str(list(paths)) if len(paths) <= MOST_NAMED or not id else f"list(result['{id}'].layers)"


def codes(network: Network, layers: Sequence[str], id: str = "") -> str:
    """The layers themselves as code, as `listed`."""
    if len(layers) <= MOST_NAMED or not id:
        return f"[{', '.join(map(network.code, layers))}]"
    getter = "get_submodule" if layers[0] in network.modules else "get_parameter"
    return f"map(model.{getter}, result['{id}'].layers)"


KINDS: dict[str, Kind] = {}


def finding(look: Look) -> Look:
    """Declare a kind of finding by the name of its function, which takes a `Network` and the limits and yields what it
    found. It raises `NotChecked` with what to pass if an input is absent; behind its last finding too, where it saw a
    part alone, as `network.require_pass()` does: what it found stays, and a network without a finding is not healthy.
    Its docstring says why the finding matters, and users read it; findings.yaml has the other texts."""
    KINDS[look.__name__] = Kind(look)
    return look


def declared() -> dict[str, Kind]:
    """All kinds of findings, from every file of `normexp/check/findings`, in the order of their texts."""
    for file in pkgutil.iter_modules([str(FOLDER)]):
        importlib.import_module(f"normexp.check.findings.{file.name}")
    return {id: KINDS[id] for id in TEXTS}
