"""Where torch has the layer, torch in float64 is the reference: values, gradients, buffers and state_dict."""

import pytest
import torch
from norms.layers import assert_same, build, norm_factory, outcome, randomized, sample
from torch import nn


class Moved(nn.Module):
    """A torch layer on (N, C, ...), from and to another order of axes."""

    def __init__(self, layer, there, back):
        super().__init__()
        self.layer, self.there, self.back = layer, there, back

    def forward(self, x):
        return self.back(self.layer(self.there(x)), x)


def rows(layer):  # every token is a sample
    return Moved(layer, lambda x: x.reshape(-1, 8), lambda y, x: y.reshape(x.shape))


def time_last(layer):
    return Moved(layer, lambda x: x.transpose(1, 2), lambda y, _: y.transpose(1, 2))


def channels_last(layer):
    return Moved(layer, lambda x: x.permute(0, 2, 3, 1), lambda y, _: y.permute(0, 3, 1, 2))


def batch_norm(**options):
    return {
        "dense": lambda: nn.BatchNorm1d(8, **options),
        "image": lambda: nn.BatchNorm2d(8, **options),
        "tokens": lambda: time_last(nn.BatchNorm1d(8, **options)),
    }


TWINS = {
    "none": dict.fromkeys(("dense", "image", "tokens"), nn.Identity),
    "batchnorm": batch_norm(),
    "batchnorm_precise": batch_norm(),  # until its statistics are recomputed
    "batchnorm_sync": batch_norm(),  # in one process
    "batchnorm_frozen": batch_norm(),  # before it freezes
    "batchnorm_noisy": batch_norm(),  # in eval mode
    "batchnorm_cumulative": batch_norm(momentum=None),
    "layernorm": {
        "dense": lambda: nn.LayerNorm(8), "image": lambda: nn.GroupNorm(1, 8), "tokens": lambda: nn.LayerNorm(8),
    },
    "layernorm_simple": {"tokens": lambda: nn.LayerNorm(8, elementwise_affine=False)},
    "layernorm_gain": {"tokens": lambda: nn.LayerNorm(8, bias=False)},
    "layernorm_channels": {"dense": lambda: nn.LayerNorm(8), "image": lambda: channels_last(nn.LayerNorm(8))},
    "groupnorm": {
        "dense": lambda: nn.GroupNorm(4, 8), "image": lambda: nn.GroupNorm(4, 8),
        "tokens": lambda: rows(nn.GroupNorm(4, 8)),
    },
    "instancenorm": {
        "image": lambda: nn.InstanceNorm2d(8, affine=True),
        "tokens": lambda: time_last(nn.InstanceNorm1d(8, affine=True)),
    },
    "rmsnorm": {"dense": lambda: nn.RMSNorm(8, eps=1e-5), "tokens": lambda: nn.RMSNorm(8, eps=1e-5)},
}  # fmt: skip
CASES = [(name, layout) for name in TWINS for layout in TWINS[name]]


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_values_gradients_and_buffers_equal_torch_and_its_state_goes_there_and_back(name, layout):
    for training in (False,) if name == "batchnorm_noisy" else (True, False):
        for native in (True, False):
            ours, theirs = build(name, layout, native=native), TWINS[name][layout]().double()
            inner = theirs.layer if isinstance(theirs, Moved) else theirs
            inner.load_state_dict(ours.state_dict())
            back = build(name, layout)
            randomized(back, seed=1).load_state_dict(inner.state_dict())
            assert_same(back.state_dict(), ours.state_dict(), rtol=0, atol=0)
            result = outcome(theirs.train(training), sample(layout))
            result = {key.replace("layer.", ""): value for key, value in result.items()}
            assert_same(outcome(ours.train(training), sample(layout)), result, rtol=1e-9, atol=1e-10)


def test_cumulative_average_stays_torchs_over_several_batches():
    ours, theirs = norm_factory("batchnorm_cumulative")(8).double(), nn.BatchNorm1d(8, momentum=None).double()
    for seed in range(4):
        torch.testing.assert_close(ours(sample("dense", seed)), theirs(sample("dense", seed)))
    torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()))
