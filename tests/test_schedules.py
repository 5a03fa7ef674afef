"""Learning rate factors against closed forms and torch's own schedulers."""

import pytest
import torch
from pytorch_lightning import Callback

from normexp.schedules import Constant, WarmupCosine


def test_constant_is_one_after_a_linear_warmup_whose_first_step_moves():
    assert [Constant()(step, 10) for step in range(6)] == [1.0] * 6
    assert [Constant(warmup_steps=4)(step, 10) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert not Constant().varies


def test_cosine_matches_torch():
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    torch_schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=0.1)
    ours = WarmupCosine(warmup_steps=0, final_fraction=0.1)
    for step in range(51):
        assert ours(step, 50) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-12)
        optimizer.step()
        torch_schedule.step()


def test_cosine_follows_warmup_and_ends_at_the_final_fraction():
    schedule = WarmupCosine(warmup_steps=10, final_fraction=0.2)
    assert schedule(9, 100) == schedule(10, 100) == 1.0
    assert schedule(55, 100) == pytest.approx(0.6)
    assert schedule(100, 100) == schedule(150, 100) == pytest.approx(0.2)


class Rates(Callback):
    def __init__(self):
        self.seen = []

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.seen += [group["lr"] for group in optimizer.param_groups]


@pytest.mark.parametrize("schedule", [Constant(), Constant(warmup_steps=3), WarmupCosine(warmup_steps=2)])
def test_each_step_of_a_run_takes_the_rate_of_its_schedule(train, schedule):
    name = "constant" if isinstance(schedule, Constant) else "warmup_cosine"
    words, rates = [f"schedule={name}", f"schedule.warmup_steps={schedule.warmup_steps}"], Rates()
    train(*words, "lr=0.1", "max_steps=6", callbacks=[rates])
    groups = len(rates.seen) // 6
    assert rates.seen[::groups] == pytest.approx([0.1 * schedule(step, 6) for step in range(6)])
