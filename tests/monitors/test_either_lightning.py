"""Monitors and `CheckNorms` plug into a Trainer of `pytorch_lightning` and of `lightning.pytorch` alike."""

import importlib

import pandas as pd
import pytest
import torch
from torch import nn

from normexp.check.run import CheckNorms
from normexp.monitors import Activations, Charts, Gradients


def recorded(package: str, folder) -> pd.DataFrame:
    """What the monitors log under a package of Lightning, from one seed."""
    lightning = pytest.importorskip(package)
    loggers = importlib.import_module(f"{package}.loggers")

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))

        def training_step(self, batch, index):
            x, y = batch
            return nn.functional.cross_entropy(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    torch.manual_seed(0)
    x, y = torch.randn(64, 4), torch.randint(2, (64,))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 8)
    watch = [Activations(every_n_steps=5), Gradients(every_n_steps=5), Charts(), CheckNorms()]
    logger = loggers.CSVLogger(folder, name="", version=package)
    trainer = lightning.Trainer(
        callbacks=watch, logger=logger, max_epochs=2, accelerator="cpu", log_every_n_steps=1,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(Net(), loader)
    return pd.read_csv(folder / package / "metrics.csv")


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore")  # each package has deprecations of its own
def test_both_packages_record_the_same(tmp_path):
    one, other = (recorded(package, tmp_path) for package in ("pytorch_lightning", "lightning.pytorch"))
    assert any(column.startswith("gradient_norm/") for column in one)
    assert len(one) > 2
    pd.testing.assert_frame_equal(one, other)
