"""Laws of half precision, folding, rotation and isometry against independent twins, and subjects made to break them."""

import functools
import math

import numpy as np
import pytest
import torch
from torch import nn

from normexp.claims.laws import depth, folding, gradients, population, rotation, stream
from normexp.norms import BatchNorm, LayerNorm, RMSNorm


@pytest.mark.parametrize("cosine", [0.0, 0.3, 0.9])
def test_cosine_map_of_relu_is_the_arc_cosine_kernel(cosine):
    """Cho, Saul 2009: E[relu(a) relu(b)] = (sqrt(1 - c^2) + (pi - acos c) c) / 2 pi, less the squared mean."""
    kernel = (math.sqrt(1 - cosine**2) + (math.pi - math.acos(cosine)) * cosine) / (2 * math.pi)
    expected = (kernel - 1 / (2 * math.pi)) / (0.5 - 1 / (2 * math.pi))
    assert depth.cosine_map("relu", cosine) == pytest.approx(expected, abs=2e-3)


def test_isometry_gap_is_that_of_the_eigenvalues():
    x = torch.randn(5, 9, dtype=torch.float64)
    values = np.linalg.eigvalsh((x @ x.T).numpy())
    assert depth.isometry_gap(x) == pytest.approx(np.log(values.mean()) - np.log(values).mean())
    assert depth.isometry_gap(torch.eye(4)) == pytest.approx(0, abs=1e-12)


def test_isometry_falls_by_the_expansion_behind_a_norm_and_not_behind_relu():
    assert depth.isometry_decay(LayerNorm, seed=0, activation="sin") == pytest.approx(1, abs=0.05)
    assert depth.isometry_decay(LayerNorm, seed=0, activation="relu", order="norm first") < -0.1


@pytest.mark.integration
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "Lion"])
def test_angle_of_a_random_walk_is_the_prediction(optimizer):
    norm = functools.partial(BatchNorm, eps=0.0)
    found = rotation.angle_ratio(norm, seed=0, optimizer=optimizer, lr=0.02, decay=0.1, steps=1200)
    assert found == pytest.approx(1, abs=0.1)
    assert rotation.predicted(optimizer, 0.02) == pytest.approx(2 * rotation.predicted(optimizer, 0.005))


def test_lion_steps_by_the_sign_of_the_mixed_gradient():
    weight = nn.Parameter(torch.tensor([1.0, -2.0]))
    step = rotation.Lion([weight], {"lr": 0.1, "weight_decay": 0.5})
    for gradient in (torch.tensor([1.0, 1.0]), torch.tensor([-0.05, -10.0])):
        weight.grad = gradient
        step.step()
    # m = 0.01 after the first step; 0.9 * 0.01 - 0.1 * 0.05 > 0 and 0.9 * 0.01 - 1 < 0
    assert weight.tolist() == pytest.approx([(0.95 - 0.1) * 0.95 - 0.1, (-1.9 - 0.1) * 0.95 + 0.1])


def test_only_batch_statistics_make_accumulation_ghost_batchnorm():
    assert population.accumulation_error(BatchNorm, seed=0, micro_batches=4) < 1e-12
    assert population.accumulation_error(LayerNorm, seed=0, micro_batches=4) > 0.1


def test_a_fold_that_leaves_something_is_seen():
    gain = folding.fold_error(RMSNorm, seed=0, place="input")
    shifted = folding.fold_error(BiasedBehind, seed=0, place="input")
    assert gain < 1e-12 < 1e-3 < shifted


class BiasedBehind(RMSNorm):
    """A gain that a linear map cannot take over."""

    def normalize(self, x):
        return super().normalize(x) + 0.1 * self.weight.square()


def test_convolution_with_the_norm_in_it_is_what_torch_fuses():
    assert folding.convolution_error(BatchNorm, seed=1, mean=10.0) < 1e-12
    wrong = functools.partial(BatchNorm, eps_position="outside", eps=0.5)
    assert folding.convolution_error(wrong, seed=1) > 1e-3


def test_gradient_of_a_bias_is_void_only_behind_its_mean():
    assert gradients.bias_gradient(BatchNorm, seed=0) < 1e-12 < gradients.bias_gradient(RMSNorm, seed=0)


class Adding(nn.Module):
    """A stream to which each of 12 branches adds another unit vector: |x_l|^2 = 1 + l."""

    accepts, input_shape, num_classes, examples = "image", (1, 4, 4), 10, None

    def __init__(self):
        super().__init__()
        self.streams = nn.ModuleList(nn.Identity() for _ in range(13))

    def sites(self):
        return [stream_site(module) for module in self.streams]

    def forward(self, x):
        total = torch.zeros(len(x), 13)
        for index, stream_module in enumerate(self.streams):
            total = total.clone()
            total[:, index] = 1.0
            total = stream_module(total)
        return total


def stream_site(module):
    return type("Site", (), {"kind": "residual", "module": module})()


def test_share_of_unit_vectors_falls_as_the_root_of_their_number():
    found = stream.share_exponent(Adding(), seed=0, batch_size=2)
    branch = np.arange(4, 13)
    assert found == pytest.approx(np.polyfit(np.log(branch), -0.5 * np.log(1 + branch), 1)[0], rel=1e-5)
