"""Faults of the forward pass, planted in small networks, each beside a healthy twin that stays silent."""

import pytest
import torch
from small_networks import Called, found, rows
from torch import nn
from torch.nn import functional as F

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


class Centered(nn.Module):
    """Takes the mean of the batch away, and holds no norm."""

    def __init__(self, running=False):
        super().__init__()
        self.register_buffer("stored", torch.zeros(8))
        self.running = running

    def forward(self, x):
        return x - (self.stored if self.running and not self.training else x.mean(0))


class Similar(nn.Module):
    """Similarities of all samples of a batch, (N, N), each of two samples alone."""

    def __init__(self, part):
        super().__init__()
        self.net = part

    def forward(self, x):
        x = self.net(x)
        return x @ x.T


@pytest.mark.parametrize("shape", [(32, 6), (32, 5, 6)])
@pytest.mark.parametrize("wrap", [lambda net: net, Similar, lambda net: nn.Sequential(net, nn.Flatten(0))])
def test_batch_that_no_norm_mixes_is_seen_in_eval_mode(shape, wrap):
    if len(shape) == 3 and wrap is Similar:
        pytest.skip("of rows")
    x = torch.randn(shape)
    healthy, wrong = (
        check(wrap(nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), Centered(running), nn.Linear(8, 1))), x)
        for running in (True, False)
    )
    if len(healthy.not_checked.get("batch_in_eval", "")):  # (N T,)
        assert shape == (32, 5, 6)
        assert "each sample" in healthy.not_checked["batch_in_eval"]
        return
    finding = found("batch_in_eval", healthy, wrong)
    assert finding.layers[0].endswith("2")
    assert finding.fix.startswith(f"in the forward of {finding.layers[0]}:")


@pytest.mark.parametrize("first", [True, False])
def test_rows_that_may_be_positions_are_not_called_samples(first):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=first)
    assert "positions" in check(layer, torch.randn(6, 8)).not_checked["batch_in_eval"]
    result = check(layer, torch.randn(6, 4, 8))
    assert ("batch_in_eval" in result.healthy) == first, result.not_checked
    mixing = check(nn.Sequential(layer, Called(lambda x: x - x.mean(0))), torch.randn(6, 4, 8))
    assert ("batch_in_eval" in mixing) == first, mixing.not_checked


class Draws(nn.Module):
    def forward(self, x):
        return F.dropout(x + torch.randn_like(x), 0.5)


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.BatchNorm1d])
def test_network_that_is_random_in_eval_mode_does_not_depend_on_its_batch(norm):
    healthy = check(body(norm(8), Draws()), rows())
    wrong = check(body(norm(8), Draws(), nn.BatchNorm1d(8, track_running_stats=False)), rows())
    assert found("batch_in_eval", healthy, wrong).layers == ("3",)


class Stubborn(nn.BatchNorm1d):
    def train(self, mode=True):
        return super().train(True)


def test_norm_that_stays_in_training_mode_is_named():
    finding = found("batch_in_eval", check(body(nn.BatchNorm1d(8)), rows()), check(body(Stubborn(8)), rows()))
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


def test_norm_is_not_blamed_for_a_layer_that_mixes_the_batch():
    follows = Called(lambda x: F.batch_norm(x, torch.zeros(8), torch.ones(8), training=x.requires_grad))
    model = body(follows, Centered())
    assert check(model, rows())["batch_in_eval"].layers == ("2",)
    weighed = Weighed(body(nn.BatchNorm1d(8, track_running_stats=False)))  # by one number for all samples
    assert check(weighed, {"x": rows()[0], "scale": torch.ones(1)})["batch_in_eval"].layers == ("net.1",)
    none = check(Weighed(body(nn.LayerNorm(8))), {"x": rows()[0], "scale": torch.full((1,), torch.inf)})
    assert "no number" in none.not_checked["batch_in_eval"]


class Weighed(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, scale):
        return self.net(x) * scale


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


def test_fix_leaves_healthy_norms_alone():
    model = body(nn.BatchNorm1d(8, momentum=0.05), nn.Tanh(), nn.BatchNorm1d(8, momentum=0.01))
    finding = check(model, rows(), steps=60)["statistics_cold"]
    assert finding.layers == ("3",)
    exec(finding.fix, {"model": model})
    assert model[1].momentum == 0.05
    assert model[3].momentum > 0.04
