"""One run: fit a LightningModule, record what happened, survive interruption."""
