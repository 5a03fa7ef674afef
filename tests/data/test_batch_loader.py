"""The loaders give the batches of the order, to one process or several, and evaluate everything."""

from types import SimpleNamespace

import pytest
import small_digits
import torch

from normexp.data import Digits
from normexp.data.base import BatchLoader
from normexp.data.orders import ShuffledOrder
from normexp.data.rows import Rows


def digits(*, rank: int = 0, world_size: int = 1, **options) -> Digits:
    """Digits of one process of several, in epoch 0 of a trainer."""
    data = small_digits.digits(**options)
    strategy = SimpleNamespace(root_device=torch.device("cpu"))
    data.trainer = SimpleNamespace(global_rank=rank, world_size=world_size, strategy=strategy)
    data._progress = lambda: (0, 0)
    return data


def test_batches_are_the_rows_of_the_order():
    x, y = torch.randn(50, 3), torch.arange(50)
    order = ShuffledOrder(50, batch_size=8, seed=0)
    loader = BatchLoader(Rows(x, y), order)
    batches = list(loader)
    assert len(batches) == len(loader) == 6
    for (bx, by), rows in zip(batches, order.batches(0), strict=True):
        assert by.tolist() == rows.tolist()
        assert torch.equal(bx, torch.stack([x[row] for row in rows]))


@pytest.mark.parametrize("augment", [False, True])
def test_processes_share_each_global_batch_whatever_their_number(augment):
    whole = list(digits(augment=augment).train_dataloader())
    parts = [list(digits(rank=r, world_size=4, augment=augment).train_dataloader()) for r in range(4)]
    for (x, y), *shares in zip(whole, *parts, strict=True):
        assert [len(share_y) for _, share_y in shares] == [16] * 4
        assert torch.equal(torch.cat([share_x for share_x, _ in shares]), x)
        assert torch.equal(torch.cat([share_y for _, share_y in shares]), y)


@pytest.mark.parametrize("split", ["val", "test"])
def test_evaluation_covers_the_split_once_and_in_order_in_every_process(split):
    data = digits(rank=1, world_size=2)
    loader = getattr(data, f"{split}_dataloader")()
    assert [len(y) for _, y in loader][:-1] == [100] * (len(loader) - 1)
    assert torch.equal(torch.cat([x for x, _ in loader]), data.splits[split].x)
    assert torch.equal(torch.cat([y for _, y in loader]), data.splits[split].y)


def test_evaluation_can_stop_at_a_limit():
    loader = digits().evaluation_loader("train", limit=250)
    assert [len(y) for _, y in loader] == [100, 100, 50]
