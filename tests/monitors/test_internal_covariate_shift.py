import copy

import pytest
import torch
from small_module import Small, batches, fit
from torch import nn

from normexp.models.sites import sites_of
from normexp.monitors import Batches, CovariateShiftProxies, InternalCovariateShift
from normexp.monitors.covariate_shift import shift, shifted_gradients, step_to_step
from normexp.monitors.sites import layer_weights, weights_before
from normexp.norms import NoisyBatchNorm


def test_a_deep_linear_network_has_the_shift_that_can_be_written_down():
    """L = 1/2 |W3 W2 W1 x - y|^2 with d = W3 W2 W1 x - y:  dL/dW1 = (W3 W2)' d x', and so on. G' has the layers
    before replaced by their updated weights."""
    torch.manual_seed(0)
    x, y = torch.randn(4, 7, dtype=torch.float64), torch.randn(4, 7, dtype=torch.float64)
    parameters = [nn.Parameter(torch.randn(4, 4, dtype=torch.float64) / 2) for _ in range(3)]
    before = {p: p.detach().clone() for p in parameters}
    after = {p: p.detach() + 0.1 * torch.randn(4, 4, dtype=torch.float64) for p in parameters}

    def loss():
        w1, w2, w3 = parameters
        return (w3 @ w2 @ w1 @ x - y).square().sum() / 2

    def gradient(i, w1, w2, w3):
        d = w3 @ w2 @ w1 @ x - y
        return [(w3 @ w2).T @ d @ x.T, w3.T @ d @ (w1 @ x).T, d @ (w2 @ w1 @ x).T][i]

    layers = {f"layer0{i}": [p] for i, p in enumerate(parameters)}
    preceding = {f"layer0{i}": parameters[:i] for i in range(3)}
    measured = shifted_gradients(loss, layers, preceding, before, after)
    old, new = list(before.values()), list(after.values())
    for i, (G, shifted) in enumerate(measured.values()):
        expected = gradient(i, *old), gradient(i, *new[:i], *old[i:])
        assert torch.allclose(G, expected[0].flatten())
        assert torch.allclose(shifted, expected[1].flatten())
        distance, cosine = shift(G, shifted)
        assert distance.item() == pytest.approx((expected[0] - expected[1]).norm().item())
        dot = (expected[0] * expected[1]).sum() / (expected[0].norm() * expected[1].norm())
        assert cosine.item() == pytest.approx(dot.item())
    assert [torch.equal(p, w) for p, w in before.items()] == [True] * 3  # the weights are back


def test_what_comes_before_a_layer_are_earlier_sites_and_parameters_of_no_site():
    net = nn.Sequential(
        nn.Embedding(3, 4), nn.LayerNorm(4), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)
    )
    embedding, norm, first, late_norm = ([*net[i].parameters()] for i in range(4))
    before = list(weights_before(net, sites_of(net)).values())
    assert [set(parameters) for parameters in before] == [
        {*embedding, *norm},
        {*embedding, *norm, *first, *late_norm},
    ]


def test_a_weight_of_two_layers_belongs_to_the_first():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    assert list(layer_weights(sites_of(net)).values()) == [[*net[0].parameters()], [net[1].bias]]


def naive_shift(before, after, batch):
    """Copies of the module, `.backward()`, and names instead of parameters."""
    names = [name for name in before if name.startswith("model.")]
    linear = [[n for n in names if n.startswith(f"model.{i}.")] for i in (0, 3, 6)]
    others = [n for n in names if n.startswith("model.1.") and "running" not in n and "num" not in n]

    def gradients(weights):
        module = Small(dropout=0)
        module.load_state_dict(weights)
        module.loss(batch).backward()
        return {name: p.grad for name, p in module.named_parameters()}

    result, mixed = [], dict(before)
    for i, own in enumerate(linear):
        pair = gradients(before), gradients(mixed)
        G, shifted = (torch.cat([g[name].flatten() for name in own]) for g in pair)
        result.append((G - shifted).norm().item())
        mixed |= {name: after[name] for name in own + (others if i == 0 else [])}
    return result


def test_shift_in_training_is_that_of_the_optimizers_own_step():
    module = Small(dropout=0)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    loader = batches(1)
    lines = fit(module, [InternalCovariateShift(every_n_steps=1)], steps=1, loader=loader)
    expected = naive_shift(before, module.state_dict(), loader.dataset.tensors)
    measured = [value for (_, tag), value in sorted(lines.values.items()) if tag.startswith("ics_distance")]
    assert measured == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert {step for step, _ in lines.values} == {0}  # no step follows the last


def test_without_training_a_plain_step_is_computed_and_not_taken():
    module = Small(dropout=0)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    batch = batches(1).dataset.tensors
    values = InternalCovariateShift(every_n_steps=1).measure(module, batch)
    twin = Small(dropout=0)
    twin.load_state_dict(before)
    twin.loss(batch).backward()
    after = dict(before) | {name: (p - 0.1 * p.grad).detach() for name, p in twin.named_parameters()}
    measured = [value for tag, value in sorted(values.items()) if tag.startswith("ics_distance")]
    assert measured == pytest.approx(naive_shift(before, after, batch), rel=1e-4, abs=1e-6)


def test_noise_of_the_next_step_is_part_of_the_shift():
    """Noise that changes at each step moves the inputs of later layers, even if no weight moves.
    The same passes by hand: copies of the module, and a count of one more batch in the norm before the layer."""
    module = Small(dropout=0, lr=0.0)
    module.model[1] = NoisyBatchNorm(8, mean_range=0.5)
    batch = batches(1).dataset.tensors
    monitor = InternalCovariateShift(every_n_steps=1)
    fit(module, [monitor], steps=1, loader=batches(1))
    found = [values[-1][1] for tag, values in sorted(monitor.recorded.items()) if "cosine" in tag]
    gradients = []
    for steps in (0, 1):
        twin = copy.deepcopy(module)
        twin.model[1].num_batches_tracked += steps
        twin.loss(batch).backward()
        gradients.append([torch.cat([p.grad.flatten() for p in twin.model[i].parameters()]) for i in (3, 6)])
    expected = [shift(a, b)[1].item() for a, b in zip(*gradients, strict=True)]
    assert found == pytest.approx([1.0, *expected], abs=1e-5)
    assert min(found) < 0.99
    assert module.model[1].num_batches_tracked.item() == 1  # the monitor counted no batch


def test_proxies_match_a_loop():
    g, g_next, w, w_next = torch.randn(4, 3, 10, dtype=torch.float64)  # 3 replicas
    values = step_to_step(g, g_next, w, w_next)
    for i in range(3):
        change = sum((a - b) ** 2 for a, b in zip(g[i], g_next[i], strict=True)) ** 0.5
        moved = sum((a - b) ** 2 for a, b in zip(w[i], w_next[i], strict=True)) ** 0.5
        total = sum((a + b) ** 2 for a, b in zip(g[i], g_next[i], strict=True)) ** 0.5
        assert values["proxy_gradient_change"][i].item() == pytest.approx(change.item())
        assert values["proxy_beta"][i].item() == pytest.approx((change / moved).item())
        assert values["proxy_gradient_sum"][i].item() == pytest.approx(total.item())


def test_proxies_in_training_take_two_consecutive_steps():
    module, twin = Small(dropout=0), Small(dropout=0)  # of a rate of 0.1, as that of a step without training
    loader = batches(3)
    first, second, _ = loader
    untrained = CovariateShiftProxies(every_n_steps=2).measure(module, Batches(second, first))
    lines = fit(module, [CovariateShiftProxies(every_n_steps=2)], steps=3, loader=loader)
    (optimizer, gradients, weights) = (twin.configure_optimizers(), [], [])
    for x, y in (first, second):
        optimizer.zero_grad()
        twin.loss((x, y)).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in twin.parameters()]))
        weights.append(torch.cat([p.detach().flatten().clone() for p in twin.parameters()]))
        optimizer.step()
    for name, value in step_to_step(*gradients, *weights).items():
        assert lines.values[0, f"{name}/network"] == pytest.approx(value.item(), rel=1e-4)
        assert untrained[f"{name}/network"] == pytest.approx(value.item(), rel=1e-4)
    # The pair that began at step 2 never had its second step.
    assert {step for step, _ in lines.values} == {0}


def test_a_layer_that_no_pass_reaches_has_no_shift():
    used, unused = (nn.Parameter(torch.ones(2)) for _ in range(2))
    before = {p: p.detach().clone() for p in (used, unused)}
    layers = {"first": [unused], "second": [used]}
    found = shifted_gradients(
        lambda: used.square().sum(), layers, {"first": [], "second": [unused]}, before, before
    )
    assert found.keys() == {"second"}


def test_proxies_are_of_what_both_steps_reach():
    module, monitor = Small(), CovariateShiftProxies(every_n_steps=2)
    monitor.watch(module, None, 0)
    for reached in ((0, 3), (3, 6)):
        monitor.before_update(
            {module.model[i].bias: torch.ones(module.model[i].out_features) for i in reached}, 1.0
        )
    found = monitor.collect(module)
    assert {tag.split("/")[1] for tag in found} == {"layer03_model_3", "network"}
    assert found["proxy_gradient_sum/network"].item() == pytest.approx(2 * 8**0.5)
