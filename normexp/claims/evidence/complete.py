"""What a cell of a bank leaves out, found in its configuration and its data: rates, the kind of test, and facts."""

from normexp.claims.evidence.rates import rates_around
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim
from normexp.config.process import fast_imports


def complete_cells(claim: Claim) -> Claim:
    """The claim with complete cells. Raises ValueError with one line for data that cannot be read."""
    if claim.evidence != "training":
        return claim
    cells = {name: complete(cell) for name, cell in claim.cells.items()}
    return claim.model_copy(update={"cells": cells})


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
        from normexp.config.targets import load_data

    config = plain(cell.overrides)
    data = load_data(config)
    answers = data.splits["val"].y.flatten()
    # Each seed cuts its own split where a setting of the data follows the seed.
    cut_again = any(word.startswith("data.") and word.endswith("${seed}") for word in cell.overrides)
    found = {
        "rates": rates_around(config["lr"]),
        "test": "blocks" if data.kind == "text" else "cut again" if cut_again else "test set",
        "validation": len(answers),
        "chance": torch.bincount(answers).max().item() / len(answers),
        "guess_loss": data.chance_loss("train"),
    }
    return cell.model_copy(update={key: value for key, value in found.items() if not getattr(cell, key)})
