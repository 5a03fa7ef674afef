"""What a training does to norms: weight decay, modes, averages of weights, and what is saved."""

import copy

import pytest
import torch
from small_networks import cnn, found, images, mlp, rows, train
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn import functional as F

from normexp.check.run import check

SGDS = [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "dampening": 0.9}]


def gain_after(make):
    """A gain of 1 after 1,000 steps of weight decay alone."""
    gain = nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = make([gain])
    for _ in range(1000):
        gain.grad = torch.zeros_like(gain)
        optimizer.step()
    return gain.item()


@pytest.mark.parametrize("more", SGDS, ids=str)
def test_decay_is_added_up_by_momentum(more):
    def sgd(parameters):
        return torch.optim.SGD(parameters, 0.1, weight_decay=5e-4, **more)

    model = mlp()
    finding = check(model, rows(), optimizer=sgd(model.parameters()))["decay_on_norms"]
    assert finding.number == pytest.approx(1 - gain_after(sgd), rel=0.01)
    assert finding.severity == ("warning" if finding.number > 0.05 else "note")


@pytest.mark.parametrize("make", ["Adam", "RMSprop", "Adagrad", "Adadelta", "NAdam"])
def test_decay_in_the_gradient_has_no_share(make):
    model = mlp()
    optimizer = getattr(torch.optim, make)(model.parameters(), lr=1e-3, weight_decay=0.01)
    finding = check(model, rows(), optimizer=optimizer)["decay_on_norms"]
    assert (finding.severity, finding.number, finding.quantity) == ("note", 0.01, "weight decay")
    assert "depends on the rest of the gradient" in finding.sentence


def test_decay_on_norms():
    def adam(groups):
        return torch.optim.AdamW(groups, 1e-2, weight_decay=0.1)

    model, data = mlp(), rows()
    norms = [p for p in model.parameters() if p.dim() < 2]
    rest = {"params": [p for p in model.parameters() if p.dim() > 1]}
    healthy = check(model, data, optimizer=adam([rest, {"params": norms, "weight_decay": 0.0}]))
    all_decay = check(model, data, optimizer=adam(model.parameters()))
    finding = found("decay_on_norms", healthy, all_decay)
    assert finding.number == pytest.approx(1 - gain_after(adam), rel=1e-6)
    assert len(finding.layers) == 4
    assert "group without decay" not in finding.sentence
    less = {"params": norms[:2], "weight_decay": 0.01}
    some = [rest | {"weight_decay": 0.0}, less, {"params": norms[2:]}]
    for order in (some, some[::-1]):  # the worst group counts
        worst = check(model, data, optimizer=adam(order))["decay_on_norms"]
        assert worst.number == finding.number
        assert "group without decay" in worst.sentence


def test_not_saved():
    model, data = mlp(), rows()
    state, lacks = model.state_dict(), ("running", "1.bias")
    whole = {f"module.{name}": value for name, value in state.items()}
    kept = {name: value for name, value in state.items() if not any(word in name for word in lacks)}
    adapter = {f"base_model.model.{name}": value for name, value in kept.items()}
    finding = found("not_saved", check(model, data, state_dict=whole), check(model, data, state_dict=adapter))
    assert finding.number == len(state) - len(kept)
    assert "5 of 10 tensors" in finding.sentence
    assert "4 running statistics, 1 gains and shifts" in finding.sentence


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_not_saved_knows_the_names_that_wrappers_give():
    net = nn.Sequential(nn.Linear(6, 8), checkpoint_wrapper(nn.BatchNorm1d(8)))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    kept = {name: value for name, value in before.items() if "running" not in name}
    x = torch.randn(32, 6)
    finding = found("not_saved", check(net, x, state_dict=before), check(net, x, state_dict=kept))
    assert set(finding.layers) == {"1.running_mean", "1.running_var"}
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


class Keeps(nn.Sequential):
    """Keeps its norm in eval mode, as torch's recipes write it."""

    def train(self, mode=True):
        super().train(mode)[1].eval()
        return self


def test_eval_mode_thaws_at_the_next_train():
    keeps, thaws = Keeps(*cnn()).train(), cnn().train()
    thaws[1].eval()
    assert found("frozen_thaws", check(keeps, images()), check(thaws, images())).number == 1
    assert not thaws[1].training


def test_stale_average():
    """An average over parameters alone, as many write it, keeps the buffers of the first step."""
    batches = [rows(), rows()]
    model = mlp()
    ema = copy.deepcopy(model)

    @torch.no_grad()
    def average():
        for mean, p in zip(ema.parameters(), model.parameters(), strict=True):
            mean.lerp_(p, 0.1)

    train(model, batches, 80, after=average)
    kept = copy.deepcopy(ema)
    torch.optim.swa_utils.update_bn([x for x, _ in batches], kept)
    whole = torch.optim.swa_utils.AveragedModel(kept)
    healthy = check(model, batches, averaged=whole)
    finding = found("stale_average", healthy, check(model, batches, averaged=ema.state_dict()))
    x, apart = batches[1][0], []
    for index in (1, 4):
        with torch.no_grad():
            z = copy.deepcopy(ema).train()[:index](x).double()
        mean, std = ema[index].running_mean.double(), ema[index].running_var.double().sqrt()
        apart.append(float((z.mean(0) - mean).norm() / std.norm()))
        apart.append(float((z.std(0, correction=0) - std).norm() / std.norm()))
    assert finding.number == pytest.approx(max(apart), rel=1e-4)
    stored = F.cross_entropy(ema.eval()(x), batches[1][1]).item()
    torch.optim.swa_utils.update_bn([batches[0][0]], ema)  # the last one is held out
    anew = F.cross_entropy(ema.eval()(x), batches[1][1]).item()
    assert f"loss is {stored:.4g}, and {anew:.4g} with" in finding.sentence
