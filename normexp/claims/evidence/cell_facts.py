"""What a cell of a bank leaves out, found in its configuration and its data: rates, the kind of test, and facts."""

import dataclasses

from normexp.claims.spec.bank import BankCell
from normexp.claims.spec.claim import Claim
from normexp.config.process import fast_imports

LADDER = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the configuration's own rate


def complete_cells(claim: Claim) -> Claim:
    """The claim with complete cells. Raises ValueError with one line for data that cannot be read."""
    if claim.evidence != "training" or all(cell.is_complete for cell in claim.cells.values()):
        return claim
    cells = {name: complete(cell) for name, cell in claim.cells.items()}
    return dataclasses.replace(claim, cells=cells)


def complete(cell: BankCell) -> BankCell:
    """The cell with everything that it left out. It reads the data, with the seed 0.

    Rates are the configuration's own, times 0.1, 0.3, 1, 3 and 10. The chance is the share of the most frequent answer
    on validation; the loss of a guess is the entropy of the answers on the training split.
    """
    if cell.is_complete:
        return cell
    with fast_imports():
        import torch

        from normexp.claims.evidence.initial import plain
        from normexp.config.construct import load_data

    config = plain(cell.overrides)
    data = load_data(config, None)
    answers = {split: data.splits[split].y.flatten() for split in ("train", "val", "test")}
    frequency = torch.bincount(answers["val"])
    return dataclasses.replace(
        cell,
        rates=cell.rates or tuple(float(f"{config['lr'] * step:.2g}") for step in LADDER),
        test=cell.test or ("blocks" if data.kind == "text" else _kind_of_split(cell)),
        validation=cell.validation or len(answers["val"]),
        chance=cell.chance or frequency.max().item() / len(answers["val"]),
        guess_loss=cell.guess_loss or data.chance_loss("train"),
        test_to_train=cell.test_to_train or len(answers["test"]) / len(answers["train"]),
    )


def _kind_of_split(cell: BankCell):
    """Whether each seed cuts its own split: a setting of the data follows the seed."""
    follows = any(word.startswith("data.") and word.endswith("${seed}") for word in cell.overrides)
    return "cut again" if follows else "test set"
