"""The base of texts: characters as tokens, a vocabulary, windows of `context_length` tokens."""

from abc import abstractmethod
from dataclasses import dataclass, field

import torch
from torch import Tensor

from normexp.data.base import DataModule
from normexp.data.order import WindowOrder
from normexp.data.room import fits, kept_as_numbers
from normexp.data.rows import Rows, Windows
from normexp.data.splits import DIGESTED, Split, digest
from normexp.data.tokens import Encoder


@dataclass(kw_only=True, eq=False)
class TextData(DataModule):
    """A text as a stream of characters for next-token prediction: x is (N, T), y the same windows one token later.

    Training windows tile the stream from a start that each epoch draws anew. Validation and test windows tile it from
    its beginning, and every token of a window counts. A split is Split(tokens[:-1], tokens[1:]), two streams.

    Attributes after `load()`:
        vocabulary: the distinct characters of the whole text, sorted; a token is a place in it.
    """

    kind = "text"

    context_length: int
    train_size: int | None = None  # characters, from the start of the training split; None: all of it

    vocabulary: str = field(default="", init=False, repr=False)

    @abstractmethod
    def read_tokens(self) -> dict[str, Tensor]:
        """The streams of "train", "val" and "test" in a small integer type. Sets `vocabulary` and `fingerprint`."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.context_length,)

    def read(self) -> dict[str, Split]:
        if self.context_length < 1:
            raise ValueError(f"data.context_length={self.context_length}: choose one character or more")
        streams = self.read_tokens()
        self.num_classes = len(self.vocabulary)
        if self.train_size is not None:
            if not 1 <= self.train_size <= len(streams["train"]):
                raise ValueError(
                    f"data.train_size={self.train_size}: the training split has {len(streams['train'])} characters; "
                    f"choose 1..{len(streams['train'])}, or null for all"
                )
            streams["train"] = streams["train"][: self.train_size]
        for split, tokens in streams.items():
            if len(tokens) <= self.context_length:
                raise ValueError(
                    f"data.context_length={self.context_length}: the {split} split has {len(tokens)} characters and "
                    "must hold a context and the character after it; choose a shorter context or give a longer text"
                )
        shown = torch.tensor(list(self.vocabulary.encode()))
        self.test_set = digest(streams["test"][: DIGESTED * self.context_length], shown)
        return {split: Split(tokens[:-1], tokens[1:]) for split, tokens in streams.items()}

    def encode(self, text: str) -> Tensor:
        """Tokens of `text`, (len(text),); every character must be in the vocabulary."""
        return torch.from_numpy(Encoder(self.vocabulary)(text))

    def decode(self, tokens: Tensor) -> str:
        return "".join(self.vocabulary[token] for token in tokens.tolist())

    def make_rows(self, split: str, device: torch.device, *, training: bool) -> Rows:
        step = 1 if training else self.context_length  # row i of training starts at token i
        split_streams = self.splits[split]
        size = len(split_streams.x)
        if kept_as_numbers(16 * size, device):
            x, y = (tokens.to(device).long().unfold(0, self.context_length, step) for tokens in split_streams)
            return Rows(x, y)  # (N, T) each, views of one stream
        place = device if fits(2 * size * split_streams.x.itemsize, device) else torch.device("cpu")
        x, y = (tokens.to(place).unfold(0, self.context_length, step) for tokens in split_streams)
        return Windows(x, y, device)

    def training_order(self, train: Split) -> WindowOrder:
        return WindowOrder(len(train.x) + 1, self.context_length, self.batch_size, self.seed)

    def describe(self) -> str:
        sizes = " / ".join(f"{len(self.splits[name].x) + 1:,} {name}" for name in ("train", "val", "test"))
        name = type(self).__name__
        return f"{name}: {sizes} characters, vocabulary {self.num_classes}, context {self.context_length}"
