"""Where torch has the layer, torch in float64 is the reference: values, gradients, buffers and state_dict."""

import pytest
import torch
from norms.layers import norm_factory, randomized
from torch import nn

SHAPES = {"dense": (6, 8), "image": (6, 8, 3, 5)}


def values(shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64) * 2 + 1


def outcome(layer, x):
    """Output, input gradient and parameter gradients under a fixed random direction."""
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(values(y.shape, seed=1))
    return [y.detach(), x.grad, *[p.grad for p in layer.parameters()]]


def assert_equal_layers(ours, theirs, x):
    theirs.load_state_dict(ours.state_dict(), strict=False)
    for ours_value, theirs_value in zip(outcome(ours, x), outcome(theirs, x), strict=True):
        torch.testing.assert_close(ours_value, theirs_value, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("native", [True, False], ids=["native", "formula"])
class TestEqualsTorch:
    def build(self, name, native, num_features=8, channel_dim=1):
        layer = randomized(norm_factory(name)(num_features, channel_dim).double())
        layer.native = native
        return layer

    def test_layer_norm_on_dense(self, native):
        assert_equal_layers(self.build("layernorm", native), nn.LayerNorm(8).double(), values((6, 8)))

    def test_layer_norm_on_tokens(self, native):
        assert_equal_layers(
            self.build("layernorm", native, 8, -1), nn.LayerNorm(8).double(), values((3, 5, 8))
        )

    def test_layer_norm_on_images_is_group_norm_with_one_group(self, native):
        assert_equal_layers(
            self.build("layernorm", native), nn.GroupNorm(1, 8).double(), values((6, 8, 3, 5))
        )

    def test_layer_norm_channels_is_layer_norm_of_each_position(self, native):
        layer, reference = self.build("layernorm_channels", native), nn.LayerNorm(8).double()
        reference.load_state_dict(layer.state_dict())
        x = values((6, 8, 3, 5))
        torch.testing.assert_close(layer(x), reference(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    def test_group_norm(self, native, shape):
        assert_equal_layers(self.build("groupnorm", native), nn.GroupNorm(4, 8).double(), values(shape))

    def test_group_norm_on_tokens_is_group_norm_of_each_token(self, native):
        layer, reference = self.build("groupnorm", native, 8, -1), nn.GroupNorm(4, 8).double()
        reference.load_state_dict(layer.state_dict())
        x = values((3, 5, 8))
        torch.testing.assert_close(layer(x), reference(x.reshape(15, 8)).reshape(3, 5, 8))

    def test_instance_norm(self, native):
        reference = nn.InstanceNorm2d(8, affine=True).double()
        assert_equal_layers(self.build("instancenorm", native), reference, values((6, 8, 3, 5)))

    def test_instance_norm_on_tokens_runs_over_the_tokens(self, native):
        layer, reference = (
            self.build("instancenorm", native, 8, -1),
            nn.InstanceNorm1d(8, affine=True).double(),
        )
        reference.load_state_dict(layer.state_dict())
        x = values((3, 5, 8))
        torch.testing.assert_close(layer(x), reference(x.transpose(1, 2)).transpose(1, 2))

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    def test_rms_norm(self, native, shape):
        layer = self.build("rmsnorm", native)
        x = values(shape)
        per_element = layer.weight.detach().view(-1, *[1] * (len(shape) - 2)).expand(shape[1:])
        expected = nn.functional.rms_norm(x, shape[1:], per_element, 1e-5)
        torch.testing.assert_close(layer(x).detach(), expected)

    @pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    def test_batch_norm(self, native, shape, training):
        layer = self.build("batchnorm", native).train(training)
        reference = (nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(8).double().train(training)
        assert_equal_layers(layer, reference, values(shape))
        for buffer in ("running_mean", "running_var", "num_batches_tracked"):
            torch.testing.assert_close(getattr(layer, buffer), getattr(reference, buffer))

    def test_batch_norm_on_tokens_runs_over_batch_and_tokens(self, native):
        layer, reference = self.build("batchnorm", native, 8, -1), nn.BatchNorm1d(8).double()
        reference.load_state_dict(layer.state_dict())
        x = values((3, 5, 8))
        torch.testing.assert_close(layer(x), reference(x.transpose(1, 2)).transpose(1, 2))
        torch.testing.assert_close(layer.running_var, reference.running_var)

    def test_cumulative_batch_norm_is_torch_with_momentum_none(self, native):
        layer = norm_factory("batchnorm", "population_statistics=cumulative")(8).double()
        layer.native = native
        reference = nn.BatchNorm1d(8, momentum=None).double()
        for seed in range(4):
            torch.testing.assert_close(layer(values((6, 8), seed)), reference(values((6, 8), seed)))
        torch.testing.assert_close(layer.running_mean, reference.running_mean)
        torch.testing.assert_close(layer.running_var, reference.running_var)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("batchnorm", nn.BatchNorm2d(8)),
        ("layernorm", nn.LayerNorm(8)),
        ("groupnorm", nn.GroupNorm(4, 8)),
        ("instancenorm", nn.InstanceNorm2d(8, affine=True)),
        ("rmsnorm", nn.RMSNorm(8)),
    ],
)
def test_state_dict_goes_to_torch_and_back(name, reference):
    layer = randomized(norm_factory(name)(8))
    reference.load_state_dict(layer.state_dict(), strict=True)
    back = norm_factory(name)(8)
    back.load_state_dict(reference.state_dict(), strict=True)
    assert all(torch.equal(back.state_dict()[key], value) for key, value in layer.state_dict().items())
