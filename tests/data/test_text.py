"""Texts: splits, vocabulary, windows, entropy, and what is refused."""

import errno
import gzip
import hashlib
import math
import os
import random
from collections import Counter

import pytest
import torch
from refusals import refused

from normexp.data import PythonDocs, TextFile
from normexp.data.text import without_copies

TEXT = "".join(random.Random(0).choices("abcdef \nα€😀", k=2000))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def text_file(path, **options) -> TextFile:
    sizes = {"batch_size": 8, "eval_batch_size": 4, "context_length": 16}
    data = TextFile(**{"path": str(path), **sizes} | options)
    data.load()
    return data


def stream(split) -> torch.Tensor:
    return torch.cat([split.x, split.y[-1:]]).long()


def test_text_file_is_cut_90_5_5_without_loss(path):
    data = text_file(path)
    parts = [data.decode(stream(data.splits[name])) for name in ("train", "val", "test")]
    assert "".join(parts) == TEXT
    assert [len(part) for part in parts] == [1800, 100, 100]
    assert data.input_shape == (16,)


def test_gzip_and_byte_order_mark_change_nothing(path, tmp_path):
    plain = text_file(path)
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    marked = tmp_path / "marked.txt"
    marked.write_text(TEXT, encoding="utf-8-sig")
    for other in (text_file(packed), text_file(marked)):
        assert torch.equal(other.splits["train"].x, plain.splits["train"].x)
    assert plain.fingerprint == text_file(packed).fingerprint == hashlib.sha256(TEXT.encode()).hexdigest()
    path.write_text(TEXT[::-1], encoding="utf-8")
    assert text_file(path).fingerprint != plain.fingerprint


def test_targets_are_the_inputs_one_character_later(path):
    data = text_file(path)
    text = data.decode(stream(data.splits["train"]))
    for x, y in data.train_dataloader():
        assert x.shape == y.shape == (8, 16)
        assert x.dtype == y.dtype == torch.int64
        for inputs, targets in zip(x, y, strict=True):
            assert data.decode(inputs) + data.decode(targets[-1:]) in text
            assert torch.equal(inputs[1:], targets[:-1])


@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_evaluation_windows_tile_the_split_from_its_beginning(path, split):
    data = text_file(path)
    batches = list(data.evaluation_loader(split))
    tokens = stream(data.splits[split])
    count = (len(tokens) - 1) // 16
    assert torch.equal(torch.cat([x for x, _ in batches]).flatten(), tokens[: 16 * count])
    assert torch.equal(torch.cat([y for _, y in batches]).flatten(), tokens[1 : 16 * count + 1])


def test_train_size_keeps_the_first_characters(path):
    data = text_file(path, train_size=300)
    assert data.decode(stream(data.splits["train"])) == TEXT[:300]
    assert data.decode(stream(data.splits["val"])) == TEXT[1800:1900]


@pytest.mark.parametrize("split", ["train", "val"])
def test_chance_loss_is_the_entropy_of_the_counted_characters(path, split):
    data = text_file(path)
    counts = Counter(data.decode(data.splits[split].y))
    total = sum(counts.values())
    expected = -sum(n / total * math.log(n / total) for n in counts.values())
    assert data.chance_loss(split) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, {}, os.strerror(errno.ENOENT)),
        (b"", {}, "the file is empty"),
        (b"\x89PNG\xff\xfe", {}, "give a text file, plain or .gz"),
        (b"\x1f\x8b\x08garbage", {}, "give a text file, plain or .gz"),
        (gzip.compress(TEXT.encode())[:-20], {}, "give a text file, plain or .gz"),
        (b"too short", {}, "the train split has 8 characters and must hold a context"),
        (b"x" * 300, {}, "data.context_length=16: the val split has 15 characters"),
        (b"x" * 2000, {"train_size": 1801}, "data.train_size=1801: the training split has 1800 characters"),
        (b"x" * 2000, {"train_size": 10}, "the train split has 10 characters"),
        (b"x" * 2000, {"batch_size": 112}, "batch_size=112: the training split has 111 samples"),
    ],
)
def test_a_text_that_cannot_be_trained_on_is_refused_in_one_line(content, options, message, tmp_path):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with refused(message):
        text_file(path, **options)


def test_a_folder_or_no_path_at_all_is_refused_in_one_line(tmp_path):
    with refused(os.strerror(errno.EISDIR)):
        text_file(tmp_path)
    with refused("name a text file with"):
        TextFile(path=None, batch_size=1, eval_batch_size=1, context_length=4).load()


def python_docs(**options) -> PythonDocs:
    data = PythonDocs(**{"batch_size": 32, "eval_batch_size": 64, "context_length": 32} | options)
    data.load()
    return data


def test_python_docs_is_split_by_topic_and_most_of_it_trains():
    from pydoc_data.topics import topics

    data = python_docs()
    texts = {name: data.decode(stream(split)) for name, split in data.splits.items()}
    share = {name: len(text) / sum(map(len, texts.values())) for name, text in texts.items()}
    assert share["train"] == pytest.approx(0.9, abs=0.02)
    assert share["val"] == pytest.approx(0.05, abs=0.01)
    assert share["test"] == pytest.approx(0.05, abs=0.01)
    whole = without_copies(topics)
    assert sum(topic in text for topic in whole.values() for text in texts.values()) == len(whole)


def test_python_docs_does_not_repeat_paragraphs_of_one_split_in_another():
    data = python_docs()
    texts = {name: data.decode(stream(split)) for name, split in data.splits.items()}
    paragraphs = {name: {p.strip() for p in text.split("\n\n")} for name, text in texts.items()}
    for split in ("val", "test"):
        repeated = sum(map(len, paragraphs[split] & paragraphs["train"]))
        assert repeated < 0.01 * sum(map(len, paragraphs[split]))


def test_python_docs_split_moves_with_the_split_seed_alone():
    first = python_docs()
    assert torch.equal(first.splits["val"].x, python_docs(seed=5).splits["val"].x)
    other = python_docs(split_seed=5)
    assert not torch.equal(first.splits["val"].x[:100], other.splits["val"].x[:100])
    assert first.fingerprint == other.fingerprint
    assert first.vocabulary == other.vocabulary
