"""Laws against independent twins: closed forms, scipy, slow loops, and norms made to break them."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from normexp.claims.laws import covariate_shift, depth, invariances, population, torch_facts
from normexp.models import GPT, MLP
from normexp.norms import BatchNorm, Identity, LayerNorm


def mlp(norm, activation="identity", depth_=6, width=16, seed=0, initialization="orthogonal"):
    torch.manual_seed(seed)
    network = MLP(
        (1, 4, 4), 10, norm, depth=depth_, width=width, activation=activation, initialization=initialization
    )
    network.input_shape, network.num_classes, network.examples = (1, 4, 4), 10, None
    return network


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_gradients_of_an_orthogonal_linear_network_grow_by_the_factor_that_was_put_in(factor):
    network = mlp(Identity)
    with torch.no_grad():
        for layer in network.layers:
            layer.linear.weight *= factor
    assert depth.gradient_growth(network, seed=0, batch_size=8) == pytest.approx(factor**2, rel=1e-5)


def test_gradient_profile_is_the_gradient_by_a_perturbation_of_each_layer():
    network = mlp(LayerNorm, activation="tanh", depth_=3)
    profile = depth.gradient_profile(network, seed=0, batch_size=4)
    x = depth.input_batch(network, 0, 4)
    direction = torch.randn(4, 10, generator=torch.Generator().manual_seed(2_000_000))
    added = torch.zeros(4, 16, requires_grad=True)
    hook = network.layers[1].linear.register_forward_hook(lambda module, inputs, output: output + added)
    (network(x) * direction).sum().backward()
    hook.remove()
    assert profile[1] == pytest.approx(float(added.grad.square().sum().log()), rel=1e-5)


def test_cosine_similarity_matches_a_loop_over_pairs():
    network = mlp(Identity, activation="relu")
    found = depth.cosine_similarity(network, seed=0, batch_size=5)
    x = depth.input_batch(network, 0, 5).flatten(1)
    for layer in network.layers:
        x = layer(x)
    rows = x.detach().double().numpy()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [abs(a @ b) for i, a in enumerate(rows) for b in rows[:i]]
    assert found == pytest.approx(np.mean(pairs), rel=1e-5)


def test_orthogonality_gap_of_equal_samples_is_known(monkeypatch):
    network = mlp(Identity, depth_=1)
    nn.init.eye_(network.layers[0].linear.weight)
    monkeypatch.setattr(depth, "input_batch", lambda *_: torch.ones(4, 1, 4, 4))
    found = depth.orthogonality_gap(network, seed=0, batch_size=4)
    assert found == pytest.approx(math.sqrt(1 - 1 / 4), rel=1e-5)


def test_gradient_turn_is_zero_without_a_step():
    network = mlp(BatchNorm, activation="relu")
    still, moved = (
        covariate_shift.gradient_turn(network, seed=0, batch_size=8, step=step) for step in (0.0, 0.5)
    )
    assert still == pytest.approx(0, abs=1e-6)
    assert moved > 1e-3


def test_moment_shift_matches_a_step_taken_by_an_optimizer():
    network = mlp(Identity, activation="tanh", depth_=3)
    found = covariate_shift.moment_shift(network, seed=1, batch_size=8, lr=0.1)
    batch, classes = covariate_shift.labelled(network, 1, 8)
    before = covariate_shift.last_summed_inputs(network, batch)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    nn.functional.cross_entropy(network(batch), classes).backward()
    optimizer.step()
    after = covariate_shift.last_summed_inputs(network, batch)
    by_hand = np.sqrt(np.mean(((after.mean(0) - before.mean(0)) / before.std(0, correction=0)).numpy() ** 2))
    assert found == pytest.approx(by_hand, rel=1e-4)


def test_measures_of_a_network_leave_a_transformer_usable_and_read_tokens():
    torch.manual_seed(0)
    network = GPT((8,), 11, LayerNorm, depth=2, width=16, heads=2, initialization="xavier")
    network.input_shape, network.num_classes, network.examples = (8,), 11, None
    assert depth.input_batch(network, 0, 3).shape == (3, 8)
    profile = depth.gradient_profile(network, seed=0, batch_size=3)
    assert profile.isfinite().all()
    assert not any(site.module._forward_hooks for site in network.sites())


@pytest.mark.parametrize("change", ["weights x 3", "data x 3", "one sample x 3"])
def test_a_norm_with_a_large_eps_fails_the_battery(change):
    def almost(num_features, channel_dim=1, *, layer=1):
        return LayerNorm(num_features, channel_dim, eps=10.0)

    assert invariances.is_invariant(LayerNorm, seed=0, change_of=change) == 1
    assert invariances.is_invariant(almost, seed=0, change_of=change) == 0


def test_a_network_with_examples_draws_each_once_and_keeps_their_labels():
    network = mlp(Identity)
    network.examples = torch.arange(20.0)[:, None, None, None] * torch.ones(20, 1, 4, 4), torch.arange(20)
    batch, classes = covariate_shift.labelled(network, 3, 8)
    assert batch[:, 0, 0, 0].tolist() == classes.tolist()
    assert depth.input_batch(network, 3, 8).tolist() == batch.tolist()
    assert len(set(classes.tolist())) == 8
    assert depth.input_batch(network, 4, 8).tolist() != batch.tolist()
    with pytest.raises(ValueError, match="batch_size=21: the data has 20 examples"):
        depth.input_batch(network, 0, 21)


@pytest.mark.parametrize("n", [4, 16, 64])
@pytest.mark.parametrize("correction", [0, 1])
def test_the_error_of_a_deviation_is_that_of_many_samples_and_of_the_chi_distribution(n, correction):
    found = torch_facts.deviation_error(seed=0, correction=correction, n=n)
    scale = math.sqrt(n - 1 if correction else n)
    chi = stats.chi(n - 1, scale=1 / scale)
    assert found == pytest.approx(math.sqrt(chi.var() + (chi.mean() - 1) ** 2))
    drawn = np.random.default_rng(n).normal(size=(100_000, n)).std(1, ddof=correction)
    assert found == pytest.approx(math.sqrt(((drawn - 1) ** 2).mean()), rel=0.02)


def test_a_sample_in_eval_mode_knows_nothing_of_its_batch_and_in_training_it_does():
    assert population.batch_dependence(BatchNorm, seed=0) == 0.0
    assert population.batch_dependence(BatchNorm, seed=0, mode="training") > 0.1
    assert population.batch_dependence(LayerNorm, seed=0, mode="training") == 0.0
