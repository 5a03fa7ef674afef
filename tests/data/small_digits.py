"""The digits of a small run, read."""

from normexp.data import Digits


def digits(**options) -> Digits:
    data = Digits(**{"batch_size": 64, "eval_batch_size": 100, "val_size": 288} | options)
    data.load()
    return data
