"""The parts of one run, built and checked, with nothing on disk yet."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pytorch_lightning import Callback, LightningDataModule, Trainer

from normexp.lit_model import LitModel


@dataclass
class Parts:
    config: dict[str, Any]  # resolved, plain types
    choices: dict[str, str]  # group -> chosen name
    digest: str  # hash of the run's identity
    data: LightningDataModule
    module: LitModel
    make_trainer: Callable[..., Trainer]
    monitors: list[Callback]
    argv: list[str] = field(default_factory=lambda: list(sys.argv))  # the command that asks for it
