"""The parts of one run, built and checked. Nothing is on disk yet."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytorch_lightning import Callback, Trainer

from normexp.data.base import DataModule
from normexp.lit_model import LitModel


@dataclass(kw_only=True)
class Parts:
    """Everything that `launch` needs to train a run. `normexp.build` makes it from a configuration.

    Attributes:
        config: resolved, in plain types.
        choices: group -> chosen name.
        digest: hash of the run's identity.
        make_trainer: makes the trainer from the arguments of this run.
        files: name -> text of the files in `.hydra/`, besides the identity.
        command: the command line of this run, for its summary.
    """

    config: dict[str, Any]
    choices: dict[str, str]
    digest: str
    data: DataModule
    module: LitModel
    make_trainer: Callable[..., Trainer]
    monitors: list[Callback]
    files: dict[str, str]
    command: str
