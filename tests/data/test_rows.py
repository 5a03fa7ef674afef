"""In whichever form a split is kept, its batches have the same bits: as numbers or as bytes."""

import pytest
import torch
from small_digits import digits

from normexp.data import PythonDocs, rows
from normexp.data.rows import PixelRows, Rows
from normexp.data.text import vocabulary_of

CPU = torch.device("cpu")


def batches(data) -> list[tuple[torch.Tensor, torch.Tensor]]:
    evaluated = [data.evaluation_loader(split) for split in ("train", "val", "test")]
    loaders = [data.train_dataloader(), *evaluated]
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


def test_images_that_do_not_fit_a_device_are_streamed_to_it(monkeypatch):
    expected = digits()
    monkeypatch.setattr(rows, "SMALL_BYTES", 0)
    monkeypatch.setattr(rows, "DEVICE_BYTES", 0)
    streamed = digits().rows("test", torch.device("meta"))
    assert (streamed.device.type, streamed.index_device.type) == ("meta", "cpu")
    x, _ = streamed.take(torch.tensor([0, 5]))
    assert (x.device.type, x.shape, x.dtype) == ("meta", (2, 1, 8, 8), torch.float32)
    on_cpu = digits().rows("test", CPU)
    assert torch.equal(on_cpu.x, expected.splits["test"].x)


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
