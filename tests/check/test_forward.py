"""Faults of the forward pass, planted in small networks, each beside a healthy twin that stays silent."""

import pytest
import torch
from small_networks import Called, Own, around, found, rows
from torch import nn
from torch.nn import functional as F

from normexp.check.run import check


def batch_norm():
    """One that takes the batch's statistics in eval mode, too."""
    return nn.BatchNorm1d(8, track_running_stats=False)


def test_prediction_depends_on_the_rest_of_the_batch():
    (x, y), wrong = rows(), around(batch_norm())
    finding = found("batch_in_eval", check(around(nn.BatchNorm1d(8)), (x, y)), check(wrong, (x, y)))
    assert finding.layers == ("1",)
    wrong.eval()
    chosen = [i % 16 for i in range(32)]
    one, other = wrong(x)[:16].detach().double(), wrong(x[chosen])[:16].detach().double()
    assert finding.number == pytest.approx(float((one - other).norm() / one.norm()), rel=1e-4)


def centered(running=False):
    """Takes the mean of the batch away, and holds no norm; of zeros in eval mode, if it is `running`."""
    return Own(lambda net, x: x - (x.mean(0) if net.training or not running else 0))


WRAPS = {  # of a network of (N, ..., 1)
    "plain": lambda net: net,
    "similarities": lambda net: nn.Sequential(
        net, Called(lambda x: x @ x.T)
    ),  # (N, N), each of two samples alone
    "flat": lambda net: nn.Sequential(net, nn.Flatten(0)),
}


@pytest.mark.parametrize(
    ("wrap", "shape"), [(w, (32, 6)) for w in WRAPS] + [("plain", (32, 5, 6)), ("flat", (32, 5, 6))]
)
def test_batch_that_no_norm_mixes_is_seen_in_eval_mode(shape, wrap):
    def result(running):
        layers = nn.Linear(6, 8), nn.LayerNorm(8), centered(running), nn.Linear(8, 1)
        return check(WRAPS[wrap](nn.Sequential(*layers)), torch.randn(shape))

    if wrap == "flat" and len(shape) == 3:
        assert "each sample" in result(True).not_checked["batch_in_eval"]
        return
    finding = found("batch_in_eval", result(True), result(False))
    assert finding.layers[0].endswith("2")
    assert finding.fix.startswith(f"in the forward of {finding.layers[0]}:")


@pytest.mark.parametrize("first", [True, False])
def test_rows_that_may_be_positions_are_not_called_samples(first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=first)
    assert "positions" in check(layer, torch.randn(6, 8)).not_checked["batch_in_eval"]
    result = check(layer, torch.randn(6, 4, 8))
    assert ("batch_in_eval" in result.healthy) == first, result.not_checked
    mixing = check(nn.Sequential(layer, centered()), torch.randn(6, 4, 8))
    assert ("batch_in_eval" in mixing) == first, mixing.not_checked


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.BatchNorm1d])
def test_network_that_is_random_in_eval_mode_does_not_depend_on_its_batch(norm):
    draws = Called(lambda x: F.dropout(x + torch.randn_like(x), 0.5))
    healthy = check(around(nn.Sequential(norm(8), draws)), rows())
    wrong = check(around(nn.Sequential(norm(8), draws, batch_norm())), rows())
    assert found("batch_in_eval", healthy, wrong).layers == ("1.2",)


def test_norm_that_stays_in_training_mode_is_named():
    class Stubborn(nn.BatchNorm1d):
        def train(self, mode=True):
            return super().train(True)

    healthy = check(around(nn.BatchNorm1d(8)), rows())
    finding = found("batch_in_eval", healthy, check(around(Stubborn(8)), rows()))
    assert finding.layers == ("1",)
    assert "stays in training mode" in finding.sentence


class Nodes(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)

    def forward(self, x, edges):
        return self.norm(edges @ self.linear(x))


def test_nodes_of_a_graph_are_not_called_samples():
    batch = {"x": torch.randn(12, 6), "edges": (torch.rand(12, 12) < 0.3).float()}
    assert "graph" in check(Nodes(), batch).not_checked["batch_in_eval"]
    assert "batch_in_eval" in check(Nodes(), batch | {"edges": torch.eye(12)}).healthy


class Weighed(nn.Module):
    """Multiplied by one number for all samples."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, scale):
        return self.net(x) * scale


def test_norm_is_not_blamed_for_a_layer_that_mixes_the_batch():
    follows = Called(lambda x: F.batch_norm(x, torch.zeros(8), torch.ones(8), training=x.requires_grad))
    model = nn.Sequential(nn.Linear(6, 8), follows, centered(), nn.Linear(8, 3))
    assert check(model, rows())["batch_in_eval"].layers == ("2",)
    x, one = rows()[0], torch.ones(1)
    weighed = check(Weighed(around(batch_norm())), {"x": x, "scale": one})
    assert weighed["batch_in_eval"].layers == ("net.1",)
    none = check(Weighed(around(nn.LayerNorm(8))), {"x": x, "scale": one * torch.inf})
    assert "no number" in none.not_checked["batch_in_eval"]


def silenced(how):
    """A network of which no gradient reaches the norm, nor what stands before it."""

    def forward(net, x):
        with torch.set_grad_enabled(how != "no_grad"):
            x = net.norm(net.linear(x))
        return net.output(x.detach() if how == "detach" else x)

    return Own(forward, linear=nn.Linear(6, 8), norm=nn.LayerNorm(8), output=nn.Linear(8, 3))


def test_forward_without_gradients():
    healthy = check(silenced(""), rows(), loss=F.cross_entropy)
    for how in ("no_grad", "detach"):
        finding = found("nothing_learns", healthy, check(silenced(how), rows(), loss=F.cross_entropy))
        assert finding.layers == ("norm",)
        assert "4 trained tensors" in finding.sentence
    frozen = silenced("no_grad")
    frozen.linear.requires_grad_(False)
    frozen.norm.requires_grad_(False)
    assert "nothing_learns" in check(frozen, rows()).healthy


def queried(how):
    """A network with a norm `query` that is called, or of which the weights alone are used, or neither."""

    def forward(net, x):
        x = net.norm(net.first(x))
        if how == "called" or (how == "in eval" and not net.training):
            x = net.query(x + 1)
        if how == "by its weights":
            x = F.layer_norm(x + 1, (8,), net.query.weight, net.query.bias)
        return net.output(x)

    norms = {"norm": nn.LayerNorm(8), "query": nn.LayerNorm(8)}
    return Own(forward, first=nn.Linear(6, 8), output=nn.Linear(8, 3), **norms)


@pytest.mark.parametrize("how", ["called", "in eval", "by its weights"])
def test_norm_that_is_never_called(how):
    finding = found("nothing_learns", check(queried(how), rows()), check(queried("never"), rows()))
    assert finding.layers == ("query",)
    assert "no pass reaches them" in finding.sentence


def test_fix_leaves_healthy_norms_alone():
    norms = nn.BatchNorm1d(8, momentum=0.05), nn.Tanh(), nn.BatchNorm1d(8, momentum=0.01)
    model = nn.Sequential(nn.Linear(6, 8), *norms)
    finding = check(model, rows(), steps=60)["statistics_cold"]
    assert finding.layers == ("3",)
    exec(finding.fix, {"model": model})
    assert model[1].momentum == 0.05
    assert model[3].momentum > 0.04
