"""A small LightningModule and a run of it, for tests that need no model or data of the project."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Small(pl.LightningModule):
    """A network with a BatchNorm, a Tanh and a dropout; counts steps in an attribute, as own modules may."""

    def __init__(self, lr: float = 0.1, dropout: float = 0.2):
        super().__init__()
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(inplace=True),
            nn.Dropout(dropout), nn.Linear(8, 3),
        )  # fmt: skip
        self.lr = lr
        self.losses = []

    def loss(self, batch):
        x, y = batch
        return F.cross_entropy(self.model(x), y)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.lr, momentum=0.9)


def batches(count: int, size: int = 16, seed: int = 0) -> DataLoader:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count * size, 6, generator=generator)
    y = torch.randint(3, (count * size,), generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=size)


class Lines(pl.loggers.logger.DummyLogger):
    """Keeps what monitors log: (step, tag) -> value."""

    def __init__(self):
        super().__init__()
        self.values = {}

    def log_metrics(self, metrics, step=None):
        self.values |= {(step, tag): value for tag, value in metrics.items() if "/" in tag}


def fit(
    module,
    monitors,
    *,
    steps=6,
    loader=None,
    validation=None,
    datamodule=None,
    resume=None,
    logger=None,
    **options,
) -> Lines:
    lines = Lines()
    torch.manual_seed(1)
    trainer = pl.Trainer(
        max_steps=steps, max_epochs=-1, callbacks=list(monitors), logger=logger or lines, accelerator="cpu",
        num_sanity_val_steps=0, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        log_every_n_steps=1, **options,
    )  # fmt: skip
    if datamodule is None:
        loader = loader or batches(steps)
    else:
        datamodule.trainer = trainer
    trainer.fit(module, loader, validation, datamodule=datamodule, ckpt_path=resume, weights_only=True)
    return lines
