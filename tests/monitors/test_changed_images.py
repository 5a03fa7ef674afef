"""Errors on changed held-out images, each against a loop over batches, a closed form, or the network asked by hand."""

import copy

import pytest
import torch
from torch import nn

from normexp.config.run_spec import specs
from normexp.monitors import Adaptation, AdversarialNoise
from normexp.monitors.loss_landscape import attacked
from normexp.training.build import build

CNN = ["model=cnn", "data=digits", "model.width=4", "model.depth=[1,1]", "trainer=cpu"]


def network(*overrides):
    """A network whose running statistics are not those of the held-out images."""
    torch.manual_seed(0)
    parts = build(specs([*CNN, *overrides])[0])
    parts.data.load()
    module = parts.module
    for p in module.parameters():
        if p.ndim > 1:
            nn.init.normal_(p, std=0.3)
    with torch.no_grad():
        module.model.train()(parts.data.probe_batch(64)[0] * 2 + 1)
    return module, parts.data.probe_batch(50)


def errors_by_hand(module, x, y, size, *, own_statistics):
    wrong, seen = 0, 0
    for start in range(0, len(x) - size + 1, size):
        model = copy.deepcopy(module.model).train(own_statistics)
        with torch.no_grad():
            answers = model(x[start : start + size]).argmax(1)
        wrong += sum(a != b for a, b in zip(answers.tolist(), y[start : start + size].tolist(), strict=True))
        seen += size
    return wrong / seen


def test_adaptation_is_the_network_asked_batch_by_batch():
    module, (x, y) = network("norm=batchnorm")
    found = Adaptation(every_n_steps=1, noise=0.7, sizes=[1, 4, 64]).measure(module, (x, y))
    z = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    noisy = x + 0.7 * (x - x.mean()).square().mean().sqrt() * z
    order = sorted(range(len(y)), key=lambda i: y[i].item())
    expected = {
        "clean_error/network": errors_by_hand(module, x, y, 50, own_statistics=False),
        "corrupted_error/network": errors_by_hand(module, noisy, y, 50, own_statistics=False),
    }
    for size in (1, 4):  # 50 images hold no batch of 64
        for kind, images, labels in (("", noisy, y), ("_sorted", noisy[order], y[order])):
            error = errors_by_hand(module, images, labels, size, own_statistics=True)
            expected[f"adapted_error_{size}{kind}/network"] = error
    assert found == pytest.approx(expected, abs=1e-6)
    assert len(set(found.values())) > 3  # the numbers tell the cases apart


def test_adaptation_without_running_statistics_is_none_and_a_refused_size_has_no_number():
    module, batch = network("norm=groupnorm")
    found = Adaptation(every_n_steps=1, sizes=[1, 5]).measure(module, batch)
    corrupted = found.pop("corrupted_error/network")
    found.pop("clean_error/network")
    assert list(found.values()) == pytest.approx([corrupted] * 4, abs=1e-6)
    parts = build(specs(["model=mlp", "norm=batchnorm", "data=digits", "model.width=8", "trainer=cpu"])[0])
    tags = Adaptation(every_n_steps=1, sizes=[1, 4]).measure(parts.module, parts.data).keys()
    assert {"clean_error", "corrupted_error", "adapted_error_4", "adapted_error_4_sorted"} == {
        tag.split("/")[0] for tag in tags
    }


def test_the_attack_of_a_linear_map_is_its_closed_form():
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(6, 2, 3, generator=generator).double() * torch.tensor([[1.0], [10.0]])
    w = torch.randn(2, 3, generator=generator).double()
    found = attacked(lambda inputs: (w * inputs).sum(), x, radius=0.1, steps=10)
    for channel in range(2):
        low, high = x[:, channel].min(), x[:, channel].max()
        moved = x[:, channel] + 0.1 * (high - low) * w[channel].sign()
        torch.testing.assert_close(found[:, channel], moved.clamp(low, high), rtol=0, atol=1e-12)
    assert torch.equal(attacked(lambda inputs: (0 * inputs).sum(), x, 0.1, 3), x)
    r = 0.1 * (x.amax((0, 2), keepdim=True) - x.amin((0, 2), keepdim=True))
    # Toward 0.3 r by steps of 2.5 r / 10: to 0.25 r, 0.5 r, 0.25 r, ...
    near = attacked(lambda inputs: -(inputs - x - 0.3 * r).square().sum(), x, 0.1, 10)
    torch.testing.assert_close(near, (x + 0.5 * r).minimum(x.amax((0, 2), keepdim=True)), rtol=0, atol=1e-12)


def test_adversarial_error_is_that_of_the_attacked_images_and_is_larger():
    module, (x, y) = network("norm=batchnorm")
    with torch.no_grad():  # the network's own answers, so that it errs nowhere
        y = module.model.eval()(x).argmax(1)
    module.train()
    found = AdversarialNoise(every_n_steps=1, radius=0.2, steps=5).measure(module, (x, y))
    model = copy.deepcopy(module.model).eval()
    near = attacked(lambda inputs: nn.functional.cross_entropy(model(inputs), y), x, 0.2, 5)
    with torch.no_grad():
        wrong = (model(near).argmax(1) != y).double().mean().item()
    assert found == pytest.approx({"clean_error/network": 0, "adversarial_error/network": wrong}, abs=1e-6)
    assert wrong > 0.05


@pytest.mark.parametrize("kind", [Adaptation, AdversarialNoise])
def test_a_text_is_no_image(kind):
    small = ["data.context_length=8", "model.width=8", "model.heads=2"]
    parts = build(specs(["model=gpt", "data=python_docs", *small])[0])
    with pytest.raises(ValueError, match="not \\(images, labels\\); leave it out"):
        kind(every_n_steps=1, batch_size=4).measure(parts.module, parts.data)
