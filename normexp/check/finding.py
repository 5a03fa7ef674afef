"""How a finding is declared: one function, with the reason and the verdicts that support it."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from normexp.check.result import Finding, Severity
from normexp.check.verdicts import links

if TYPE_CHECKING:
    from normexp.check.network import Network


@dataclass(frozen=True)
class Found:
    """What a finding's function says; see `Finding` for the attributes."""

    severity: Severity
    sentence: str
    number: float
    quantity: str
    fix: str
    layers: tuple[str, ...] = ()


Look = Callable[["Network"], Iterable[Found]]


@dataclass(frozen=True)
class Declared:
    """A kind of finding: its function, why it matters, and the ids of the verdicts that say so."""

    id: str
    look: Look
    why: str
    verdicts: tuple[str, ...]

    def findings(self, network: "Network") -> list[Finding]:
        """What it finds in a network. Raises NotChecked if an input is absent."""
        cited = links(self.verdicts)
        return [Finding(id=self.id, why=self.why, links=cited, **vars(f)) for f in self.look(network)]


DECLARED: dict[str, Declared] = {}


def finding(name: str, *verdicts: str) -> Callable[[Look], Look]:
    """Declare a kind of finding. Its function takes a `Network` and yields what it found; it raises `NotChecked` with
    what to pass if an input is absent. Its docstring says why the finding matters, and users read it."""

    def declare(look: Look) -> Look:
        DECLARED[name] = Declared(name, look, " ".join((look.__doc__ or "").split()), verdicts)
        return look

    return declare


def declared() -> dict[str, Declared]:
    """All kinds of findings, from every file of `normexp/check/findings`."""
    from normexp.check import findings

    for file in pkgutil.iter_modules(findings.__path__):
        importlib.import_module(f"{findings.__name__}.{file.name}")
    return DECLARED
