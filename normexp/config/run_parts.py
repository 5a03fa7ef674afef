"""The parts of one run, built and checked, with nothing on disk yet."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytorch_lightning import Callback, Trainer

from normexp.data.base import DataModule
from normexp.lit_model import LitModel


@dataclass(kw_only=True)
class Parts:
    """All that `launch` needs to train a run; `normexp.build` makes it from a configuration.

    Attributes:
        config: resolved, in plain types.
        choices: group -> chosen name.
        digest: hash of the run's identity.
        make_trainer: called with the arguments of this run, gives the trainer.
        files: name -> text of the files that `.hydra/` gets, beside the identity.
        command: the command line that asks for this run, for its summary.
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
