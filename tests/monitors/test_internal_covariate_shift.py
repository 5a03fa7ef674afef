import copy

import pytest
import torch
from small_module import Small, batches, fit
from torch import nn
from torch.nn import functional as F

from normexp.models.sites import sites_of
from normexp.monitors import Batches, CovariateShiftProxies, InternalCovariateShift
from normexp.monitors.covariate_shift import shift, shifted_gradients
from normexp.monitors.sites import layer_weights, weights_before
from normexp.norms import NoisyBatchNorm


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


def by_hand(before, after, batch):
    """Distance and cosine of each layer's gradients: copies of the module, `.backward()`, and names."""
    layers = {0: "layer00_model_0", 3: "layer03_model_3", 6: "layer05_model_6"}

    def gradients(weights):
        module = Small(dropout=0)
        module.load_state_dict(weights)
        module.loss(batch).backward()
        return {name: p.grad for name, p in module.named_parameters()}

    found, mixed = {}, dict(before)
    for i, layer in layers.items():
        own = [f"model.{i}.weight", f"model.{i}.bias"]
        pair = gradients(before), gradients(mixed)
        G, shifted = (torch.cat([g[name].flatten() for name in own]) for g in pair)
        found[f"ics_distance/{layer}"] = (G - shifted).norm().item()
        found[f"ics_cosine/{layer}"] = F.cosine_similarity(G, shifted, dim=0).item()
        norms = ["model.1.weight", "model.1.bias"] if i == 0 else []
        mixed |= {name: after[name] for name in own + norms}
    return pytest.approx(found, rel=1e-4, abs=1e-6)


def test_the_shift_in_training_is_that_of_the_optimizers_own_step():
    module, loader = Small(dropout=0), batches(1)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    lines = fit(module, [InternalCovariateShift(every_n_steps=1)], steps=1, loader=loader)
    found = {tag: value for (step, tag), value in lines.values.items() if step == 0}
    assert found == by_hand(before, module.state_dict(), loader.dataset.tensors)
    assert len(found) == len(lines.values)  # no step follows the last


def test_without_training_a_plain_step_is_computed_and_not_taken():
    module, twin, batch = Small(dropout=0), Small(dropout=0), batches(1).dataset.tensors
    before = {name: value.clone() for name, value in module.state_dict().items()}
    twin.loss(batch).backward()
    after = before | {name: (p - 0.1 * p.grad).detach() for name, p in twin.named_parameters()}
    assert InternalCovariateShift(every_n_steps=1).measure(module, batch) == by_hand(before, after, batch)


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


def test_proxies_take_two_consecutive_steps():
    module, twin = Small(dropout=0), Small(dropout=0)  # of a rate of 0.1, as that of a step without training
    loader = batches(3)
    first, second, _ = loader
    untrained = CovariateShiftProxies(every_n_steps=2).measure(module, Batches(second, first))
    lines = fit(module, [CovariateShiftProxies(every_n_steps=2)], steps=3, loader=loader)
    optimizer, gradients, weights = twin.configure_optimizers(), [], []
    for batch in (first, second):
        optimizer.zero_grad()
        twin.loss(batch).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in twin.parameters()]))
        weights.append(torch.cat([p.detach().flatten().clone() for p in twin.parameters()]))
        optimizer.step()
    change, moved = (torch.dist(*pair).item() for pair in (gradients, weights))
    expected = {
        "proxy_gradient_change": change, "proxy_beta": change / moved,
        "proxy_gradient_sum": sum(gradients).norm().item(),
    }  # fmt: skip
    for name, value in expected.items():
        assert lines.values[0, f"{name}/network"] == pytest.approx(value, rel=1e-4)
        assert untrained[f"{name}/network"] == pytest.approx(value, rel=1e-4)
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
