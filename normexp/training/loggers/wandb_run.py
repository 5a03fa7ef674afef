"""A run at Weights & Biases. The study is its group."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import wandb
from pytorch_lightning.loggers import WandbLogger

from normexp.training.loggers.services import Sent, ServiceLogger, settings_of, title

if TYPE_CHECKING:
    from normexp.training.parts import Parts

AXIS = "trainer/global_step"  # Lightning's name of the steps at wandb


class WandbRun(ServiceLogger, WandbLogger):
    """Lightning's logger for wandb. A resumed run continues under its id.

    wandb's own variables say where and how: WANDB_MODE=offline, WANDB_PROJECT (else `normexp`), WANDB_ENTITY, WANDB_DIR
    (else the run's folder).

    Raises ValueError with one line if wandb refuses, for example without a login.
    """

    service = "wandb"

    def __init__(self, parts: "Parts", folder: Path):
        sent = Sent(folder / ".wandb.json")
        sent.run_id = sent.run_id or secrets.token_hex(4)
        sent.write()
        project = os.environ.get("WANDB_PROJECT", "normexp")
        try:
            # Lightning would take a run that the caller has open.
            run = wandb.init(
                project=project,
                group=parts.config["name"],
                name=title(parts, folder),
                tags=[parts.choices[key] for key in ("model", "norm", "data")],
                id=sent.run_id,
                resume="allow",
                dir=os.environ.get("WANDB_DIR", folder),
                config=settings_of(parts),
                reinit="create_new",
                settings=wandb.Settings(console="off", quiet=True, **_soon_on_disk()),
            )
        except (wandb.Error, OSError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ValueError(
                f"logger=wandb: {reason}; run `wandb login`, or set WANDB_MODE=offline"
            ) from None
        run.define_metric(AXIS)
        run.define_metric("*", step_metric=AXIS, step_sync=True)
        super().__init__(sent, experiment=run, project=project, save_dir=str(folder))

    def log_results(self, metrics: Mapping[str, float]) -> None:
        self.experiment.summary.update(dict(metrics))

    def end(self) -> None:
        self.experiment.finish(exit_code=0 if self.error is None else 1)


def _soon_on_disk() -> dict[str, float]:
    """wandb writes its file every 15 s, and a kill loses what it has not written. Earlier versions lack the setting."""
    name = "x_transaction_log_flush_interval"
    return {name: 1.0} if name in wandb.Settings.model_fields else {}
