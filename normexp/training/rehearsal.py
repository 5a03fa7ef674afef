"""A forward pass before training, so that a layer which cannot work says so before anything is written."""

import copy
import warnings

import torch

from normexp.data.base import DataModule


def rehearse(model: torch.nn.Module, data: DataModule, batch_size: int) -> None:
    """One training-mode forward pass of a batch's shape on the meta device: no arithmetic, but every layer checks
    its input, so that a norm which cannot work at this batch size says so before training."""
    shape, dtype = (batch_size, *data.input_shape), data.probe_batch(1)[0].dtype
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            copy.deepcopy(model).to("meta").train()(torch.empty(shape, device="meta", dtype=dtype))
        except RuntimeError as error:
            if "meta" not in str(error):
                raise
            # a layer that reads a value, as BatchNorm does to see whether it is frozen
            copy.deepcopy(model).train()(torch.zeros(shape, dtype=dtype))
