"""What every text shares: characters as tokens, a vocabulary, windows of `context_length` tokens."""

import hashlib
from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from normexp.data.base import DataModule
from normexp.data.order import WindowOrder
from normexp.data.splits import Split


@dataclass(kw_only=True, eq=False)
class TextData(DataModule):
    """A text as a stream of characters for next-token prediction: x is (N, T), y the same windows one token later.

    Training windows tile the stream from a start drawn for every epoch; validation and test windows tile it from its
    beginning, and every window is scored in full. A split is Split(tokens[:-1], tokens[1:]), one stream each.

    Attributes after `load()`:
        vocabulary: the distinct characters of the whole text in order; a token is a place in it.
    """

    kind = "text"

    context_length: int
    train_size: int | None = None  # characters, from the start of the training split; None: all of it

    vocabulary: str = field(default="", init=False, repr=False)

    @abstractmethod
    def read_text(self) -> dict[str, str]:
        """The text of "train", "val" and "test"; sets `fingerprint`."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.context_length,)

    def read(self) -> dict[str, Split]:
        if self.context_length < 1:
            raise ValueError(f"data.context_length={self.context_length}: choose one character or more")
        texts = self.read_text()
        self.vocabulary = "".join(sorted(set().union(*texts.values())))
        self.num_classes = len(self.vocabulary)
        if self.train_size is not None:
            if not 1 <= self.train_size <= len(texts["train"]):
                raise ValueError(
                    f"data.train_size={self.train_size}: the training split has {len(texts['train'])} characters; "
                    f"choose 1..{len(texts['train'])}, or null for all"
                )
            texts["train"] = texts["train"][: self.train_size]
        for split, text in texts.items():
            if len(text) <= self.context_length:
                raise ValueError(
                    f"data.context_length={self.context_length}: the {split} split has {len(text)} characters and must "
                    "hold a context and the character after it; choose a shorter context or give a longer text"
                )
        self.test_set = hashlib.sha256(texts["test"].encode()).hexdigest()[:16]
        streams = {split: self.encode(text) for split, text in texts.items()}
        return {split: Split(tokens[:-1], tokens[1:]) for split, tokens in streams.items()}

    def encode(self, text: str) -> Tensor:
        """Tokens of `text`, int64 (len(text),); every character must be in the vocabulary."""
        place = np.zeros(0x110000, dtype=np.int64)  # by code point
        place[codes(self.vocabulary)] = np.arange(len(self.vocabulary))
        return torch.from_numpy(place[codes(text)])

    def decode(self, tokens: Tensor) -> str:
        return "".join(self.vocabulary[token] for token in tokens.tolist())

    def rows(self, split: str, device: torch.device) -> Split:
        return self._windows(split, device, step=self.context_length)

    def training_rows(self, device: torch.device) -> Split:
        return self._windows("train", device, step=1)  # row i starts at token i

    def _windows(self, split: str, device: torch.device, step: int) -> Split:
        x, y = (tokens.to(device).unfold(0, self.context_length, step) for tokens in self.splits[split])
        return Split(x, y)  # (N, T) each, views of one stream

    def training_order(self, train: Split) -> WindowOrder:
        return WindowOrder(len(train.x) + 1, self.context_length, self.batch_size, self.seed)

    def describe(self) -> str:
        sizes = " / ".join(f"{len(self.splits[name].x) + 1:,} {name}" for name in ("train", "val", "test"))
        name = type(self).__name__
        return f"{name}: {sizes} characters, vocabulary {self.num_classes}, context {self.context_length}"


def codes(text: str) -> np.ndarray:
    """Unicode code points of a text."""
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
