"""Losses that tell nothing of single layers: what rests on them is not checked, and no norm is blamed."""

import functools

import pytest
import torch
from small_networks import Called, around
from torch import nn
from torch.nn import functional as F

import normexp
from normexp.check import CheckNorms
from normexp.check.run import check

X, Y = torch.randn(32, 6, generator=torch.manual_seed(0)), torch.arange(32) % 4


def network(norm=None):
    return around(norm or nn.LayerNorm(8), classes=4)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda output, _: output.sum() * float("nan"), "gradients that are no numbers"),
        (lambda output, _: (output * 0).sum(), "gradients of 0"),
        (lambda output, _: output.detach().sum().requires_grad_(), "no gradient"),
    ],
    ids=["nan", "zero", "apart"],
)
def test_a_loss_without_gradients_is_said_and_no_norm_blamed(loss, said):
    net = network(nn.BatchNorm1d(8, momentum=None))
    net(X)  # running statistics that have seen a batch
    result = check(net, (X, Y), loss=loss)
    assert {"nothing_learns", "bias_cancelled"} <= {*result.not_checked}
    assert said in result.not_checked["nothing_learns"]
    assert "nothing_learns" not in result
    assert "mode_gap" not in result


@pytest.mark.parametrize(
    "loss", [F.cross_entropy, nn.MSELoss(), functools.partial(F.cross_entropy, reduction="sum")]
)
def test_a_loss_of_two_and_more_arguments_is_taken(loss):
    target = torch.zeros(len(X), 4) if isinstance(loss, nn.Module) else Y
    assert "pass_fails" in check(network(), (X, target), loss=loss).healthy


def test_facts_of_a_pass_that_fails_are_whole():
    """BatchNorm refuses one sample."""
    facts = check(network(nn.BatchNorm1d(8)), (X[:1], Y[:1])).facts
    assert facts[0] == "1 BatchNorm1d; 1 sample a pass; loss: none, since the pass fails"


@pytest.mark.parametrize(("outputs", "guessed"), [(1, False), (2, False), (3, False), (4, True)])
def test_classes_are_guessed_only_where_the_output_has_so_many(outputs, guessed):
    """One logit of two classes, for one, goes to another loss."""
    net = around(nn.LayerNorm(8), classes=outputs)
    result = check(net, (X, Y if outputs > 1 else Y % 2))
    assert "pass_fails" in result.healthy
    assert ("cross-entropy, guessed" in result.facts[0]) == guessed
    assert ("no loss is known" in result.facts[0]) == (not guessed)


def test_parameters_that_are_no_numbers_are_found():
    net = network()
    net[2].weight.data[0, 0] = torch.inf
    finding = check(net, (X, Y))["not_finite"]
    assert (finding.severity, finding.layers) == ("error", ("2.weight",))


def test_loss_that_lacks_its_targets_is_said():
    sentence = check(network(), X, loss=F.cross_entropy)["pass_fails"].sentence
    assert "loss=: fails without targets; give batches that have them" in sentence


def test_a_loop_that_hides_its_targets_is_checked_without_its_loss():
    net, callback = network(), CheckNorms(strict=True)
    with normexp.watch(net, monitors=[callback], loss=F.cross_entropy):
        F.cross_entropy(net(X), Y).backward()
        torch.optim.SGD(net.parameters(), 0.1).step()
    assert "pass_fails" in callback.result.healthy
    assert "random sum" in callback.result.facts[0]
    assert "w.over(loader)" in callback.result.facts[1]


def test_norms_of_a_loss_are_said_to_be_none_of_the_network():
    class WithNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, output, target):
            return F.cross_entropy(self.norm(output), target)

    facts = check(network(), (X, Y), loss=WithNorm()).facts
    assert "1 LayerNorm" in facts[0]
    assert "norms of loss= are not checked" in facts[1]


def test_an_output_of_complex_numbers_has_gradients():
    net = nn.Sequential(network(), Called(torch.fft.fft))
    assert {"pass_fails", "nothing_learns", "batch_in_eval"} <= {*check(net, X).healthy}


def test_a_network_whose_parameters_are_frozen_is_said():
    result = check(network().requires_grad_(False), (X, Y))
    assert "no parameter is trained" in result.not_checked["nothing_learns"]


@pytest.mark.parametrize("spectral", [nn.utils.parametrizations.spectral_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.spectral_norm.* is deprecated")
def test_spectral_norm_is_no_norm_of_activations(spectral):
    net = network()
    net[2] = spectral(net[2])
    norms = check(net, (X, Y)).norms
    assert "LayerNorm" in str(norms)
    assert "normalize" not in str(norms)
