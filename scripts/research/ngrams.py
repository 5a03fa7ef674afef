"""How well counts of characters in a row predict a text: what a network must beat before it has learned more.

    python scripts/research/ngrams.py drawn texts

adds to the pilots of each text of these banks `learned_loss`, the loss of counts of four characters on validation.
"""

import json
import sys

import numpy as np
from numpy.typing import NDArray

from normexp.claims.evidence.initial import plain
from normexp.claims.spec.bank import load_bank, pilots_file
from normexp.config.targets import load_data

ORDER = 4

Tokens = NDArray[np.int64]


def ngram_loss(train: Tokens, validation: Tokens, order: int, vocabulary: int) -> float:
    """Loss of an n-gram model with Witten-Bell smoothing, in nats a token.

    p(c | h) = (n(h c) + k(h) p(c | h')) / (n(h) + k(h)), where n counts in `train`, k(h) is the number of different
    tokens that follow h there, and h' is h without its first token. Without h: p(c) = (n(c) + 1) / (N + V), so that a
    token that `train` lacks is possible; the `chance_loss` of a data set gives `train`'s own shares, unsmoothed.

    Source: Witten and Bell 1991, The zero-frequency problem; Chen and Goodman 1999, An empirical study of smoothing
    techniques for language modeling.

    Args:
        train, validation: tokens from 0 to V - 1, in the order of the text.
        order: n, the number of tokens in a row that are counted.
        vocabulary: V. V to the power of n must be below 2^63: each sequence is counted under one integer.

    Returns:
        Mean of -log p over `validation` from its token n on, which are the tokens with n - 1 others before them.
    """
    if len(validation) < order:
        raise ValueError(f"validation: has {len(validation)} tokens; counts of {order} need as many")
    if vocabulary**order >= 2**63:
        raise ValueError(
            f"ngrams={order}: too many for a vocabulary of {vocabulary}: its power must be below 2^63; ask for fewer"
        )
    p = (np.bincount(train, minlength=vocabulary)[validation] + 1) / (len(train) + vocabulary)
    for length in range(2, order + 1):
        seen, counts = np.unique(_rows(train, length, vocabulary), return_counts=True)
        before, first = np.unique(seen // vocabulary, return_index=True)
        totals, followers = np.add.reduceat(counts, first), np.diff(first, append=len(seen))
        asked = _rows(validation, length, vocabulary)
        together = _look_up(seen, counts, asked)
        total, k = (_look_up(before, values, asked // vocabulary) for values in (totals, followers))
        lower = p[1:]
        p = np.where(total > 0, (together + k * lower) / np.maximum(total + k, 1), lower)
    return float(-np.log(p).mean())


def _rows(tokens: Tokens, length: int, vocabulary: int) -> Tokens:
    """A number for each `length` tokens in a row; the last token is its last digit in base V."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, length)
    return windows @ vocabulary ** np.arange(length - 1, -1, -1)


def _look_up(keys: Tokens, values: Tokens, asked: Tokens) -> Tokens:
    """The value of each key that is asked for; 0 for one that is not among the sorted keys."""
    place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[place] == asked, values[place], 0)


def main(names: list[str]) -> None:
    """Write `learned_loss` into the pilots of these banks."""
    for name in names:
        bank = load_bank(name)
        path = pilots_file(bank.path)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            if row.get("test") == "blocks":
                data = load_data(plain(bank.cells[row["setting"]].overrides), None)
                train, validation = (
                    data.splits[split].x.long().flatten().numpy() for split in ("train", "val")
                )
                row["learned_loss"] = round(ngram_loss(train, validation, ORDER, data.num_classes), 4)
                print(name, row["setting"], row["learned_loss"], row["guess_loss"])
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main(sys.argv[1:])
