"""The language reference inside every CPython: English and code, no download."""

import hashlib
from dataclasses import dataclass

from torch import Tensor

from normexp.data.splits import split_random
from normexp.data.text import TextData
from normexp.data.tokens import encoded

EVALUATION_SHARE = 0.05  # of the characters, for validation and again for test


@dataclass(kw_only=True, eq=False)
class PythonDocs(TextData):
    """`pydoc_data.topics`, split by topic: no topic lies in two splits.

    The text differs between versions of Python, and so does the fingerprint.
    """

    split_seed: int = 0  # assigns topics to splits; the run's seed does not

    def read_tokens(self) -> dict[str, Tensor]:
        try:
            from pydoc_data.topics import topics
        except ImportError as error:
            raise ValueError(
                "data=python_docs: this Python comes without pydoc_data.topics; take data=text_file data.path=FILE"
            ) from error
        topics = without_copies(topics)
        self.fingerprint = hashlib.sha256("\n".join(topics.values()).encode()).hexdigest()

        names = split_random(self.split_seed).permutation(sorted(topics)).tolist()
        room = EVALUATION_SHARE * sum(len(text) for text in topics.values())
        test = fill(names, topics, room)
        val = fill([name for name in names if name not in test], topics, room)
        train = [name for name in names if name not in test + val]
        texts = {
            split: "\n\n".join(topics[name] for name in chosen)
            for split, chosen in (("train", train), ("val", val), ("test", test))
        }
        self.vocabulary, tokens = encoded(texts)
        return tokens


def fill(names: list[str], topics: dict[str, str], room: float) -> list[str]:
    """Topics in the given order, as long as `room` characters hold them. A topic that is too long is skipped."""
    chosen = []
    for name in names:
        if len(topics[name]) <= room:
            chosen.append(name)
            room -= len(topics[name])
    return chosen


def without_copies(topics: dict[str, str]) -> dict[str, str]:
    """Topics sorted by name. A topic is omitted if most of its paragraphs stand in a longer topic.

    A quarter of the topics are sections of others, such as "while" of "compound". They would put training text into the
    validation set.
    """
    seen, kept = set(), []
    for name in sorted(topics, key=lambda name: (-len(topics[name]), name)):
        paragraphs = {paragraph.strip() for paragraph in topics[name].split("\n\n")}
        new = paragraphs - seen
        if 2 * sum(map(len, new)) > sum(map(len, paragraphs)):
            kept.append(name)
            seen |= paragraphs
    return {name: topics[name] for name in sorted(kept)}
