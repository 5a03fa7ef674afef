"""Texts as characters: windows of `context_length` tokens, from a file of the user or Python's documentation."""

import gzip
import hashlib
import zlib
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from normexp.data.base import DIGESTED, Count, DataModule, SplitSeed, digest
from normexp.data.orders import WindowOrder, split_random
from normexp.data.rows import Rows, Windows

CODE_POINTS = 0x110000
EVALUATION_SHARE = 0.05  # of Python's documentation, for validation and again for test
GZIP = b"\x1f\x8b"  # how such a file begins


def code_points(text: str) -> np.ndarray:
    """Unicode code points of a text."""
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


def vocabulary_of(texts: Iterable[str]) -> str:
    """The distinct characters of all texts, in order."""
    seen = np.zeros(CODE_POINTS, dtype=bool)
    for text in texts:
        seen[code_points(text)] = True
    return "".join(map(chr, np.flatnonzero(seen)))


@dataclass(kw_only=True, eq=False)
class TextData(DataModule):
    """A text as a stream of characters for next-token prediction: x is (N, T), y the same windows one token later.

    Training windows tile the stream from a start that each epoch draws anew. Validation and test windows tile it from
    its beginning, and every token of a window counts. A split is Rows(tokens[:-1], tokens[1:]), two streams.

    Attributes after `load()`:
        vocabulary: the distinct characters of the whole text, sorted; a token is a place in it.
    """

    kind = "text"

    context_length: Count
    train_size: int | None = None  # characters, from the start of the training split; None: all of it

    vocabulary: str = field(default="", init=False, repr=False)

    @abstractmethod
    def read_tokens(self) -> dict[str, Tensor]:
        """The streams of "train", "val" and "test" in a small integer type. Sets `vocabulary` and `fingerprint`."""

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.context_length,)

    def read(self) -> dict[str, Rows]:
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
        return {split: Rows(tokens[:-1], tokens[1:]) for split, tokens in streams.items()}

    def encode(self, text: str) -> Tensor:
        """Tokens of `text`, (len(text),), in a small type; every character must be in the vocabulary."""
        sizes = {np.uint8: 2**8, np.int16: 2**15, np.int32: 2**31}
        table = np.zeros(
            CODE_POINTS, next(kind for kind, most in sizes.items() if len(self.vocabulary) <= most)
        )
        table[code_points(self.vocabulary)] = np.arange(len(self.vocabulary))
        return torch.from_numpy(table[code_points(text)])

    def decode(self, tokens: Tensor) -> str:
        return "".join(self.vocabulary[token] for token in tokens.tolist())

    def make_rows(self, split: str, device: torch.device, *, training: bool) -> Rows:
        step = 1 if training else self.context_length  # row i of training starts at token i
        # (N, T), views of one stream
        streams = (tokens.to(device).unfold(0, self.context_length, step) for tokens in self.splits[split])
        return Windows(*streams)

    def training_order(self, train: Rows) -> WindowOrder:
        return WindowOrder(len(train) + 1, self.context_length, self.batch_size, self.seed)

    def describe(self) -> str:
        sizes = " / ".join(f"{len(rows) + 1:,} {split}" for split, rows in self.splits.items())
        name = type(self).__name__
        return f"{name}: {sizes} characters, vocabulary {self.num_classes}, context {self.context_length}"


@dataclass(kw_only=True, eq=False)
class TextFile(TextData):
    """UTF-8 text at `path`, plain or gzipped: the first 90% train, the next 5% validate, the last 5% test."""

    path: str | None

    def read_tokens(self) -> dict[str, Tensor]:
        if self.path is None:
            raise ValueError("data.path is not set: name a text file with data.path=FILE, plain or .gz")
        try:
            content = Path(self.path).expanduser().read_bytes()
            if content.startswith(GZIP):
                content = gzip.decompress(content)
            text = content.decode("utf-8-sig")
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"data.path={self.path}: {reason}; give a text file, plain or .gz") from error
        if not text:
            raise ValueError(f"data.path={self.path}: the file is empty; give a text longer than a context")
        self.fingerprint = hashlib.sha256(content).hexdigest()
        self.vocabulary = vocabulary_of([text])
        train_end, val_end = len(text) * 90 // 100, len(text) * 95 // 100
        tokens = self.encode(text)
        return {"train": tokens[:train_end], "val": tokens[train_end:val_end], "test": tokens[val_end:]}


@dataclass(kw_only=True, eq=False)
class PythonDocs(TextData):
    """The language reference inside every CPython, `pydoc_data.topics`: English and code, no download.

    It is split by topic: no topic lies in two splits. The text differs between versions of Python, and so does the
    fingerprint.
    """

    split_seed: SplitSeed = 0  # assigns topics to splits; the run's seed does not

    def read_tokens(self) -> dict[str, Tensor]:
        try:
            from pydoc_data.topics import topics as all_topics
        except ImportError as error:
            raise ValueError(
                "data=python_docs: this Python comes without pydoc_data.topics; take data=text_file data.path=FILE"
            ) from error
        topics = without_copies(all_topics)
        self.fingerprint = hashlib.sha256("\n".join(topics.values()).encode()).hexdigest()

        chosen: dict[str, list[str]] = {"train": [], "val": [], "test": []}
        names = split_random(self.split_seed).permutation(sorted(topics)).tolist()
        for split in ("test", "val"):  # as many topics as fit, in this order
            room = EVALUATION_SHARE * sum(len(text) for text in topics.values())
            for name in [name for name in names if name not in chosen["test"]]:
                if len(topics[name]) <= room:
                    chosen[split].append(name)
                    room -= len(topics[name])
        chosen["train"] = [name for name in names if name not in chosen["test"] + chosen["val"]]
        texts = {split: "\n\n".join(topics[name] for name in some) for split, some in chosen.items()}
        self.vocabulary = vocabulary_of(texts.values())
        return {split: self.encode(text) for split, text in texts.items()}


def without_copies(topics: dict[str, str]) -> dict[str, str]:
    """Topics sorted by name. A topic is omitted if most of its paragraphs stand in a longer topic.

    A quarter of the topics are sections of others, such as "while" of "compound". They would put training text into the
    validation set.
    """
    seen: set[str] = set()
    kept = []
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        paragraphs = {paragraph.strip() for paragraph in topics[name].split("\n\n")}
        new = paragraphs - seen
        if 2 * sum(map(len, new)) > sum(map(len, paragraphs)):
            kept.append(name)
            seen |= paragraphs
    return {name: topics[name] for name in sorted(kept)}
