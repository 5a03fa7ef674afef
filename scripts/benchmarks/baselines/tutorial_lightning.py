"""Lightning as its tutorials use it, for comparison in the benchmark of the training loop."""

import io
from collections.abc import Callable
from pathlib import Path

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from PIL import Image
from pytorch_lightning.loggers import TensorBoardLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.functional.classification import multiclass_accuracy
from torchvision import transforms


class Images(Dataset):
    """PIL images, transformed one by one when they are read, as in torchvision's data sets."""

    def __init__(self, x: Tensor, y: Tensor):
        self.x, self.y = (255 * x).to(torch.uint8).cpu().numpy(), y.tolist()
        self.transform = transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]
        )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        pixels = self.x[index]  # (C, H, W)
        image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
        return self.transform(image), self.y[index]


class Tutorial(pl.LightningModule):
    """Logs loss and accuracy at every step and every epoch, to the progress bar and to TensorBoard."""

    def __init__(self, model: nn.Module, make_optimizer: Callable, num_classes: int):
        super().__init__()
        self.model, self.make_optimizer, self.num_classes = model, make_optimizer, num_classes

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.model(x)
        loss = F.cross_entropy(logits, y)
        accuracy = multiclass_accuracy(logits, y, self.num_classes, average="micro")
        self.log("train_loss", loss, prog_bar=True, on_step=True, on_epoch=True)
        self.log("train_accuracy", accuracy, prog_bar=True, on_step=True, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return self.make_optimizer(self.parameters())


def fit_as_tutorials_do(parts, folder: Path, callbacks: list[pl.Callback]) -> None:
    """Train the same model on the same images with a DataLoader of PIL images. Log and draw the bar at each step."""
    images = Images(*parts.data.splits["train"])
    loader = DataLoader(images, batch_size=parts.config["batch_size"], shuffle=True, drop_last=True)
    bar = pl.callbacks.RichProgressBar(console_kwargs={"file": io.StringIO(), "force_terminal": True})
    trainer = pl.Trainer(
        max_epochs=-1,
        devices=1,
        callbacks=[bar, *callbacks],
        logger=TensorBoardLogger(folder),
        log_every_n_steps=1,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    module = Tutorial(parts.module.model, parts.module.make_optimizer, parts.data.num_classes)
    trainer.fit(module, loader)
