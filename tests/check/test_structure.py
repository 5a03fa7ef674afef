"""Norms that stand in the wrong place: each finding on a network that has the fault and on a healthy twin."""

import pytest
import torch
from small_networks import cnn
from torch import nn
from torch.utils.checkpoint import checkpoint

from normexp.check.run import check


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def images():
    return [(torch.randn(16, 3, 8, 8), torch.randint(0, 3, (16,))) for _ in range(2)]


def rows():
    return [(torch.randn(16, 6), torch.randint(0, 3, (16,))) for _ in range(2)]


def texts(size=8):
    return [(torch.randint(0, 11, (16, size)), torch.randint(0, 3, (16,))) for _ in range(2)]


def found(name, healthy, faulty):
    assert name in healthy.healthy, (str(healthy), healthy.not_checked)
    assert name in faulty, (str(faulty), faulty.not_checked)
    return faulty[name]


class Net(nn.Module):
    """Two linear maps with a norm between; `idle` builds one that is not called, `frozen` runs the first part without
    gradients, `how` computes it again in the backward pass."""

    def __init__(self, *, idle=False, frozen=False, how=None, twice=False):
        super().__init__()
        self.first, self.norm, self.head = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.spare = nn.LayerNorm(8) if idle else nn.Identity()
        self.again = nn.BatchNorm1d(8) if twice else nn.Identity()
        self.frozen, self.how = frozen, how

    def forward(self, x):
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            x = self.first(x)
            x = self.norm(x) if self.how is None else checkpoint(self.norm, x, use_reentrant=self.how)
        return self.head(torch.relu(self.again(x)))


def test_a_norm_that_is_not_called():
    finding = found("never_called", check(Net(), rows()), check(Net(idle=True), rows()))
    assert finding.layers == ("spare",)
    assert finding.severity == "warning"


def test_an_output_that_does_not_depend_on_the_input():
    def network(norm):
        body = [nn.Conv2d(3, 8, 3), norm, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)]
        return nn.Sequential(*body)

    healthy, faulty = network(nn.BatchNorm2d(8)), network(nn.InstanceNorm2d(8))
    x = torch.randn(4, 3, 8, 8)
    assert torch.allclose(faulty(x), faulty(2 * x + 1), atol=1e-4)
    assert found("input_ignored", check(healthy, images()), check(faulty, images())).severity == "error"


def test_a_layer_that_starts_at_zero_is_no_fault():
    network = cnn()
    nn.init.zeros_(network[-1].weight)
    assert "input_ignored" not in check(network, images())


def test_a_forward_pass_without_gradients():
    finding = found("nothing_learns", check(Net(), rows()), check(Net(frozen=True), rows()))
    assert finding.layers == ("norm",)


def test_batchnorm_without_running_statistics():
    faulty = cnn()
    faulty[1] = nn.BatchNorm2d(8, track_running_stats=False)
    faulty.eval()
    x = torch.randn(4, 3, 8, 8)
    assert not torch.allclose(faulty(x)[:2], faulty(x[:2]))
    assert found("batch_in_eval", check(cnn(), images()), check(faulty.train(), images())).layers == ("1",)


def test_an_optimizer_without_the_norms():
    network = cnn()
    whole = torch.optim.SGD(network.parameters(), 0.1)
    part = torch.optim.SGD([p for p in network.parameters() if p.ndim > 1], 0.1)
    healthy, faulty = (check(network, images(), optimizer=optimizer) for optimizer in (whole, part))
    assert found("not_optimized", healthy, faulty).layers == ("1.weight", "1.bias")


def test_batchnorm_over_tokens_whose_number_is_that_of_features():
    class Tokens(nn.Module):
        def __init__(self, turned):
            super().__init__()
            self.embed, self.norm, self.head = nn.Embedding(11, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
            self.turned = turned

        def forward(self, x):
            x = self.embed(x)
            x = self.norm(x.transpose(1, 2)).transpose(1, 2) if self.turned else self.norm(x)
            return self.head(x.mean(1))

    finding = found(
        "tokens_as_channels", check(Tokens(turned=True), texts()), check(Tokens(turned=False), texts())
    )
    assert finding.layers == ("norm",)


def test_two_batchnorms_in_a_row():
    assert found("twice_in_a_row", check(Net(), rows()), check(Net(twice=True), rows())).layers == ("again",)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("reentrant", [True, False])
def test_batchnorm_that_is_computed_twice_a_step(reentrant):
    healthy, faulty = Net(), Net(how=reentrant)
    moved = {}
    for name, network in (("once", healthy), ("twice", faulty)):
        torch.manual_seed(1)
        (x, y), _ = rows()
        nn.functional.cross_entropy(network(x), y).backward()
        moved[name] = int(network.norm.num_batches_tracked)
        network.zero_grad()
    assert moved == {"once": 1, "twice": 2}
    finding = found("moves_twice", check(healthy, rows()), check(faulty, rows()))
    assert finding.number == 2
    assert "0.0513" in finding.fix  # 1 - sqrt(1 - 0.1)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_gradients_stay_where_a_checkpoint_runs_the_backward_pass():
    network = Net(how=True)
    network.first.weight.grad = torch.ones_like(network.first.weight)
    check(network, rows())
    assert torch.equal(network.first.weight.grad, torch.ones_like(network.first.weight))
    assert network.head.weight.grad is None


def test_momentum_beyond_one_and_a_negative_variance_have_their_own_words():
    network = cnn()
    network[1].momentum = 2.0
    assert "at most 1" in check(network, images())["converted"].sentence
    assert "m.momentum = 0.1" in check(network, images())["converted"].fix
    network = cnn()
    network[1].running_var.fill_(-1)
    assert "variance below 0" in check(network, images())["not_finite"].sentence


def test_a_line_of_code_names_the_layers_that_are_meant():
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.BatchNorm1d(8))
    network[1].momentum = 0.9
    assert check(network, rows())["converted"].fix == "for m in [model[1]]: m.momentum = 0.1"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.jit.script(cnn()), "is compiled TorchScript; pass the network"),
        (lambda: torch.jit.trace(cnn().eval(), torch.randn(4, 3, 8, 8)), "is compiled TorchScript"),
        (lambda: cnn().to("meta"), r"has weights without memory \(meta\)"),
        (
            lambda: nn.Sequential(nn.LazyLinear(3), nn.BatchNorm1d(3)),
            "lazy layers without weights; run one batch",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_checked_is_one_line(make, message):
    network = make()
    with pytest.raises(ValueError, match=message) as caught:
        check(network, images())
    assert "\n" not in str(caught.value)
