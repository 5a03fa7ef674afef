"""The code that trains a run, even if the code changed while the run was interrupted."""

from typing import Any

import pytorch_lightning as pl

from normexp.config.code import TRAINING, checkout, sources


class CodeRecord(pl.Callback):
    """Reads the code before a run starts, because files may be edited while it trains. Checkpoints keep the record.

    A run that resumes with other code belongs to no version. The digest of a changed part is then `<old>+<new>`, which
    no code ever has.

    Attributes:
        sources: digests for the summary.
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
