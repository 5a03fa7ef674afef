"""The convolutional network, and what the fast recipe adds to it and to the loss: pooling before the norm, whitened
patches, filters that pass on channels, smoothed labels, evaluation of mirror images. Its formula is asked in
test_plain_networks.py."""

import pytest
import torch
import torch.nn.functional as F

from normexp.models import CNN
from normexp.models.cnn import Whitening
from normexp.norms import BatchNorm
from normexp.training.lit_model import EVALUATED_AT_ONCE, LitModel, loss_and_right


def cnn(**options) -> CNN:
    torch.manual_seed(0)
    return CNN((3, 16, 16), 10, BatchNorm, depth=[1, 2], width=4, **options)


def test_pool_first_halves_each_stage_before_its_first_norm_with_the_same_weights():
    usual, first = cnn(), cnn(pool="first")
    assert all(torch.equal(a, b) for a, b in zip(usual.parameters(), first.parameters(), strict=True))
    sizes = []
    for site in first.sites():
        if site.kind == "norm":
            site.module.register_forward_hook(lambda module, inputs, output: sizes.append(output.shape[-1]))
    x = torch.randn(2, 3, 16, 16)
    assert first(x).shape == (2, 10)
    assert sizes == [8, 4, 4]
    by_hand = F.max_pool2d(first.stages[0][0].linear[0](x), 2)
    assert torch.equal(by_hand, first.stages[0][0].linear(x))


def test_whitened_patches_of_the_training_images_are_uncorrelated_with_variance_one():
    images = (torch.randn(200, 2, 9, 9) @ torch.randn(9, 9)).double()
    layer = Whitening(2, eps=0.0).double()
    layer.fit(images)
    out = layer(images).transpose(0, 1).flatten(1)  # (16, positions)
    assert torch.equal(out[:8], -out[8:])
    moments = out[:8] @ out[:8].T / out.shape[1]
    torch.testing.assert_close(moments, torch.eye(8, dtype=torch.float64), rtol=0, atol=1e-9)
    assert not layer.weight.requires_grad


def test_whitened_network_keeps_its_filters_in_the_state():
    network = cnn(whiten=True)
    assert "whitening.weight" in network.state_dict()
    assert network(torch.randn(2, 3, 16, 16)).shape == (2, 10)
    assert [site.layer for site in network.sites()] == [site.layer for site in cnn().sites()]


def test_dirac_filters_pass_on_their_channels_and_the_others_are_those_of_he():
    usual, dirac = cnn(initialization="he"), cnn(initialization="dirac")
    assert torch.equal(usual.output.weight, dirac.output.weight)
    layers = [[layer.linear for stage in net.stages for layer in stage] for net in (usual, dirac)]
    for before, after in zip(*layers, strict=True):
        fan_in = after.in_channels
        x = torch.randn(2, fan_in, 8, 8)
        torch.testing.assert_close(after(x)[:, :fan_in], x)
        assert torch.equal(before.weight[fan_in:], after.weight[fan_in:])
    assert after.out_channels == fan_in  # the last convolution does nothing, so an equality was tested


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tta_flip_is_the_mean_of_the_logits_of_an_image_and_its_mirror_image(dtype):
    network, images = cnn().eval().to(dtype), torch.randn(EVALUATED_AT_ONCE + 3, 3, 16, 16).to(dtype)
    once, both = (LitModel(network, None, None, total_steps=1, tta=tta).eval() for tta in ("none", "flip"))
    with torch.no_grad():
        expected = torch.stack([network(x).double() for x in (images, images.flip(3))]).mean(0)
        torch.testing.assert_close(both.evaluated(images), expected.float())
        torch.testing.assert_close(once.evaluated(images), network(images))
        assert not torch.allclose(both.evaluated(images), once.evaluated(images).float(), atol=0.01)


def test_smoothed_loss_is_the_cross_entropy_with_smoothed_targets():
    logits, targets = torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 0, 1])
    smooth = 0.7 * F.one_hot(targets, 4) + 0.3 / 4
    expected = -(smooth * logits.log_softmax(1)).sum(1).mean()
    loss, right, count = loss_and_right(logits, targets, 0.3)
    torch.testing.assert_close(loss, expected)
    assert (int(right), count) == (int((logits.argmax(1) == targets).sum()), 6)
    module = LitModel(torch.nn.Identity(), None, None, total_steps=1, label_smoothing=0.3)
    step = module.training_step((logits, targets), 0)
    torch.testing.assert_close(step["loss"], expected)
    assert step["batch_accuracy"].item() == pytest.approx(
        (logits.argmax(1) == targets).double().mean().item()
    )


def test_sums_over_a_split_do_not_depend_on_its_batches():
    logits, targets = torch.randn(60, 4, dtype=torch.float64), torch.randint(4, (60,))
    module, results = LitModel(torch.nn.Identity(), None, None, total_steps=1), []
    for size in (60, 7, 1):
        module.on_validation_epoch_start()
        for batch in zip(logits.split(size), targets.split(size), strict=True):
            module.validation_step(batch, 0)
        results.append(module.evaluation_result())
    assert results[0]["loss"] == pytest.approx(F.cross_entropy(logits, targets).item(), rel=1e-12)
    assert results[1] == pytest.approx(results[0], rel=1e-12)
    assert results[2] == pytest.approx(results[0], rel=1e-12)
