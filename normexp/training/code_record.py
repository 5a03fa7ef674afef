"""Which code trains a run, also where it was interrupted and goes on with another version."""

from typing import Any

import pytorch_lightning as pl

from normexp.config.code import TRAINING, checkout, sources


class CodeRecord(pl.Callback):
    """Reads the code before a run starts, since somebody may edit files while it trains, and keeps that in checkpoints.

    A run that goes on with other code than it began with is of no version: the digest of what changed in between is
    `<old>+<new>`, and no code will ever have it.

    Attributes:
        sources: for the summary.
        checkout: the commit that trains, or that trained last.
    """

    def __init__(self, config: dict[str, Any], trained_by: str = TRAINING):
        self.sources = sources(config, trained_by)
        self.checkout = checkout()

    def state_dict(self) -> dict[str, Any]:
        return {"sources": self.sources}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        before, now = state["sources"], self.sources
        shared = {name: _joined(before[name], now[name]) for name in before.keys() & now.keys()}
        self.sources = before | now | shared


def _joined(before: str, now: str) -> str:
    return before if before.endswith(now) else f"{before}+{now}"
