"""Characters as tokens, in the smallest integer type that holds the vocabulary."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

CODE_POINTS = 0x110000


def codes(text: str) -> np.ndarray:
    """Unicode code points of a text."""
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


def vocabulary_of(texts: Iterable[str]) -> str:
    """The distinct characters of all texts, in order."""
    seen = np.zeros(CODE_POINTS, dtype=bool)
    for text in texts:
        seen[codes(text)] = True
    return "".join(map(chr, np.flatnonzero(seen)))


class Encoder:
    """Text -> places in a vocabulary, uint8, int16 or int32; every character must be in the vocabulary."""

    def __init__(self, vocabulary: str) -> None:
        kinds = ((np.uint8, 2**8), (np.int16, 2**15), (np.int32, 2**31))
        self.dtype = next(np.dtype(kind) for kind, room in kinds if len(vocabulary) <= room)
        self.place = np.zeros(CODE_POINTS, dtype=self.dtype)
        self.place[codes(vocabulary)] = np.arange(len(vocabulary))

    def __call__(self, text: str) -> np.ndarray:
        return self.place[codes(text)]


def encoded(texts: dict[str, str]) -> tuple[str, dict[str, Tensor]]:
    """The common vocabulary of all texts, and the tokens of each."""
    vocabulary = vocabulary_of(texts.values())
    encoder = Encoder(vocabulary)
    return vocabulary, {name: torch.from_numpy(encoder(text)) for name, text in texts.items()}
