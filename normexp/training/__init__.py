"""One run: fit a LightningModule, record its numbers, survive interruption."""
