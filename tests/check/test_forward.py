"""Faults of the forward pass, planted in small networks, each beside a healthy twin that stays silent."""

import copy

import pytest
import torch
from small_networks import found, rows
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from normexp.check.run import check


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def body(*norms):
    return nn.Sequential(nn.Linear(6, 8), *norms, nn.ReLU(), nn.Linear(8, 3))


def test_prediction_depends_on_the_rest_of_the_batch():
    (x, y), wrong = rows(), body(nn.BatchNorm1d(8, track_running_stats=False))
    finding = found("batch_in_eval", check(body(nn.BatchNorm1d(8)), (x, y)), check(wrong, (x, y)))
    assert finding.layers == ("1",)
    wrong.eval()
    chosen = [i % 16 for i in range(32)]
    one, other = wrong(x)[:16].detach().double(), wrong(x[chosen])[:16].detach().double()
    assert finding.number == pytest.approx(float((one - other).norm() / one.norm()), rel=1e-4)


class Silenced(nn.Module):
    def __init__(self, how, norm=nn.LayerNorm):
        super().__init__()
        self.linear, self.norm, self.output, self.how = nn.Linear(6, 8), norm(8), nn.Linear(8, 3), how

    def forward(self, x):
        with torch.set_grad_enabled(self.how != "no_grad"):
            x = self.norm(self.linear(x))
        return self.output(x.detach() if self.how == "detach" else x)


def test_forward_without_gradients():
    healthy = check(Silenced(""), rows(), loss=F.cross_entropy)
    for how in ("no_grad", "detach"):
        finding = found("nothing_learns", healthy, check(Silenced(how), rows(), loss=F.cross_entropy))
        assert finding.layers == ("norm",)
        assert "4 trained tensors" in finding.sentence
    frozen = Silenced("no_grad")
    frozen.linear.requires_grad_(False)
    frozen.norm.requires_grad_(False)
    assert "nothing_learns" in check(frozen, rows()).healthy


def test_optimizer_without_the_norms():
    model = body(nn.LayerNorm(8))
    every, some = (torch.optim.SGD(p, 0.1) for p in (model.parameters(), [model[0].weight]))
    healthy = check(model, rows(), optimizer=every)
    finding = found("not_optimized", healthy, check(model, rows(), optimizer=some))
    assert finding.layers == ("1.weight", "1.bias")
    exec(finding.fix, {"model": model, "optimizer": some})
    assert "not_optimized" in check(model, rows(), optimizer=some).healthy


class Idle(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.first, self.norm, self.query, self.output, self.how = (
            nn.Linear(6, 8), nn.LayerNorm(8), nn.LayerNorm(8), nn.Linear(8, 3), how,
        )  # fmt: skip

    def forward(self, x):
        x = self.norm(self.first(x))
        if self.how == "called" or (self.how == "in eval" and not self.training):
            x = self.query(x + 1)
        if self.how == "by its weights":
            x = F.layer_norm(x + 1, (8,), self.query.weight, self.query.bias)
        return self.output(x)


def test_norm_that_is_never_called():
    for how in ("called", "in eval", "by its weights"):
        finding = found("nothing_learns", check(Idle(how), rows()), check(Idle("never"), rows()))
    assert finding.layers == ("query",)
    assert "no pass reaches them" in finding.sentence


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.body, self.output = body(nn.BatchNorm1d(8)), nn.Linear(3, 3)
        self.reentrant = reentrant

    def forward(self, x):
        return self.output(checkpoint(self.body, x.requires_grad_(), use_reentrant=self.reentrant))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_network_learns_and_stays_as_it_is(reentrant):
    """A reentrant checkpoint that begins a network gives gradients by `backward` alone. A gradient that is there
    stays."""
    model = Checkpointed(reentrant)
    before = copy.deepcopy(model.state_dict())
    model.output.weight.grad = torch.ones_like(model.output.weight)
    assert "nothing_learns" in check(model, rows(), loss=F.cross_entropy).healthy
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(model.output.weight.grad, torch.ones_like(model.output.weight))
    assert all(p.grad is None for p in model.body.parameters())


def test_negative_running_variance_is_called_that():
    model = body(nn.BatchNorm1d(8))
    model[1].running_var[2] = -1
    finding = found("not_finite", check(body(nn.BatchNorm1d(8)), rows()), check(model, rows()))
    assert "variance below 0" in finding.sentence


def test_momentum_above_one_gets_a_momentum():
    model = body(nn.BatchNorm1d(8, momentum=2.0), nn.BatchNorm1d(8))
    finding = check(model, rows())["momentum"]
    exec(finding.fix, {"model": model})
    assert (model[1].momentum, model[2].momentum) == (0.1, 0.1)


def test_fix_leaves_healthy_norms_alone():
    model = body(nn.BatchNorm1d(8, momentum=0.05), nn.Tanh(), nn.BatchNorm1d(8, momentum=0.01))
    finding = check(model, rows(), steps=60)["statistics_cold"]
    assert finding.layers == ("3",)
    exec(finding.fix, {"model": model})
    assert model[1].momentum == 0.05
    assert model[3].momentum > 0.04
