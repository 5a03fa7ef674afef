"""In whichever form a split is kept, its batches have the same bits: as numbers, as bytes, mapped."""

import numpy as np
import pytest
import torch

from normexp.data import Digits, PythonDocs, rows
from normexp.data.cache import mapped
from normexp.data.rows import PixelRows, Rows, Windows
from normexp.data.text import vocabulary_of
from normexp.data.transforms import Scaling

CPU = torch.device("cpu")


def digits(**options) -> Digits:
    data = Digits(**{"batch_size": 64, "eval_batch_size": 100, "val_size": 288} | options)
    data.load()
    return data


def batches(data) -> list[tuple[torch.Tensor, torch.Tensor]]:
    loaders = [
        data.train_dataloader(),
        *(data.evaluation_loader(split) for split in ("train", "val", "test")),
    ]
    return [batch for loader in loaders for batch in loader]


def assert_same(found, expected) -> None:
    for (x, y), (wanted_x, wanted_y) in zip(found, expected, strict=True):
        assert torch.equal(x, wanted_x)
        assert x.dtype == wanted_x.dtype
        assert torch.equal(y, wanted_y)


@pytest.mark.parametrize(
    "options",
    [{}, {"binarize": True}, {"normalize": False}, {"augment": True}, {"samples_per_class": 8}],
    ids=lambda options: next(iter(options), "plain"),
)
def test_a_split_kept_as_bytes_gives_the_same_bits(options, monkeypatch):
    expected = digits(**options)
    assert type(expected.rows("train", CPU)) is Rows
    monkeypatch.setattr(rows, "SMALL_BYTES", 0)
    data = digits(**options)
    assert type(data.rows("train", CPU)) is PixelRows
    assert_same(batches(data), batches(expected))
    assert torch.equal(data.probe_batch(20)[0], expected.probe_batch(20)[0])
    assert torch.equal(data.splits["val"].x, expected.splits["val"].x)


# One batch, some, all of them.
@pytest.mark.parametrize("at_once", [1, 20_000, 2**20])
def test_batches_that_are_taken_together_are_those_taken_alone(at_once, monkeypatch):
    monkeypatch.setattr(rows, "GATHERED_ELEMENTS", at_once)
    for small in (0, 2**26):  # bytes, numbers
        monkeypatch.setattr(rows, "SMALL_BYTES", small)
        kept = digits(augment=True).rows("train", CPU, training=True)
        chosen = torch.randperm(len(kept))[:900].view(-1, 60)
        found = list(kept.batches(chosen))
        assert_same(found, [kept.take(rows) for rows in chosen])
        shared = {x.untyped_storage().data_ptr() for x, _ in found}
        assert len(shared) == {1: 15, 20_000: 3, 2**20: 1}[at_once]
        assert all(x.data_ptr() % 64 == 0 for x, _ in found)


def test_rows_of_a_mapped_file_are_the_same(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (200, 3, 37, 41), dtype=np.uint8)
    pixels.tofile(tmp_path / "pixels")
    place, y = torch.randperm(200)[:150], torch.arange(150) % 10
    scaling = Scaling(
        255, binarize=False, mean=torch.tensor([0.4, 0.5, 0.6]), std=torch.tensor([0.2, 0.3, 0.4])
    )
    plain = PixelRows(torch.from_numpy(pixels), place, y, scaling)
    of_file = PixelRows(mapped(tmp_path / "pixels", pixels.shape), place, y, scaling)
    chosen = torch.randperm(150)[:140].view(70, 2)
    assert_same(of_file.batches(chosen), plain.batches(chosen))
    slices = [slice(start, start + 11) for start in range(0, 150, 11)]
    assert_same(of_file.batches(slices), plain.batches(slices))


def test_images_that_do_not_fit_a_device_are_streamed_to_it(monkeypatch):
    expected = digits()
    monkeypatch.setattr(rows, "SMALL_BYTES", 0)
    monkeypatch.setattr(rows, "fits", lambda nbytes, device: False)
    streamed = digits().rows("test", torch.device("meta"))
    assert (streamed.device.type, streamed.index_device.type) == ("meta", "cpu")
    x, _ = streamed.take(torch.tensor([0, 5]))
    assert (x.device.type, x.shape, x.dtype) == ("meta", (2, 1, 8, 8), torch.float32)
    on_cpu = digits().rows("test", CPU)
    assert torch.equal(on_cpu.x, expected.splits["test"].x)


def test_text_kept_in_small_tokens_gives_the_same(monkeypatch):
    def python_docs() -> PythonDocs:
        data = PythonDocs(batch_size=32, eval_batch_size=64, context_length=32, train_size=20_000)
        data.load()
        return data

    expected = python_docs()
    assert expected.splits["train"].x.dtype == torch.uint8
    monkeypatch.setattr(rows, "SMALL_BYTES", 0)
    data = python_docs()
    assert isinstance(data.rows("val", CPU), Windows)
    assert_same(batches(data), batches(expected))
    x, y = next(iter(data.train_dataloader()))
    assert x.dtype == y.dtype == torch.int64


@pytest.mark.parametrize(
    ("count", "kind"), [(256, "uint8"), (257, "int16"), (2**15, "int16"), (2**15 + 1, "int32")]
)
def test_tokens_are_of_the_smallest_type_that_holds_them(count, kind):
    letters = "".join(chr(0x10000 + place) for place in range(count))
    assert vocabulary_of([letters[::-1], letters[:3]]) == letters
    data = PythonDocs(batch_size=1, eval_batch_size=1, context_length=1)
    data.vocabulary = letters
    tokens = data.encode(letters)
    assert tokens.dtype == getattr(torch, kind)
    assert tokens.tolist() == list(range(count))


def test_data_of_the_same_content_is_shared_and_of_another_is_not():
    first = digits(split_seed=3)
    same = Digits(batch_size=64, eval_batch_size=100, val_size=288, split_seed=3, seed=5)
    same.load(like=[digits(), first])
    assert same.splits is first.splits
    assert same.rows("train", CPU, training=True) is first.rows("train", CPU, training=True)
    other = Digits(batch_size=64, eval_batch_size=100, val_size=288, split_seed=4)
    other.load(like=[first])
    assert other.splits is not first.splits
    assert other.test_set != first.test_set
