import pytest
import pytorch_lightning as pl
import torch
from small_module import Small, batches, fit

from normexp.monitors import Batches, BatchStatistics
from normexp.monitors.batch_statistics import discrepancy


def test_discrepancy_of_a_known_batch():
    rows = torch.tensor([[1.0, 10.0], [3.0, 10.0]])  # means 2, 10; stds 1, 0
    values = discrepancy(rows, torch.tensor([2.0, 6.0]), torch.tensor([9.0, 16.0]))  # running stds 3, 4
    assert values["tid_mean"].item() == pytest.approx(4 / 5)
    assert values["tid_std"].item() == pytest.approx((2**2 + 4**2) ** 0.5 / 5)


def test_the_three_evaluations_match_modes_set_by_hand():
    module = Small(dropout=0.5)
    for batch in batches(5, seed=3):
        module.loss(batch)  # moves the running statistics
    x, y = batches(2).dataset.tensors
    both = Batches(held_out=(x[:16], y[:16]), training=(x[16:], y[16:]))
    values = BatchStatistics(every_n_steps=1, batch_size=16).measure(module, both)

    norm, state = module.model[1], {k: v.clone() for k, v in module.state_dict().items()}
    module.eval()
    population = module.loss(both.held_out).item()
    norm.train()
    val = module.loss(both.held_out).item()
    train = module.loss(both.training).item()
    module.load_state_dict(state)
    inputs = module.model[0](x[:16]).detach()
    assert values["loss_population/network"] == pytest.approx(population)
    assert values["loss_val_batch/network"] == pytest.approx(val)
    assert values["loss_train_batch/network"] == pytest.approx(train)
    assert values["loss_mode_gap/network"] == pytest.approx(population - val)
    std = norm.running_var.sqrt()
    gaps = inputs.mean(0) - norm.running_mean, inputs.std(0, correction=0) - std
    tids = {tag.split("/")[0]: value for tag, value in values.items() if tag.startswith("tid")}
    expected = zip(("tid_mean", "tid_std"), ((gap.norm() / std.norm()).item() for gap in gaps), strict=True)
    assert tids == pytest.approx(dict(expected), rel=1e-5)


@pytest.mark.parametrize(("batch_size", "samples"), [(None, 16), (8, 8)])
def test_the_held_out_batch_is_as_large_as_one_of_training(batch_size, samples):
    class Data(pl.LightningDataModule):
        asked: list = []  # noqa: RUF012

        def train_dataloader(self):
            return batches(2)

        def probe_batch(self, n):
            self.asked.append(n)
            return batches(1).dataset[:n]

    data, monitor = Data(), BatchStatistics(every_n_steps=1, batch_size=batch_size)
    monitor.measure(Small(), data)
    fit(Small(), [monitor], steps=1, datamodule=data)
    assert data.asked == [samples, samples]
