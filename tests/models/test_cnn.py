"""The plain convolutional network."""

import pytest
import torch
import torch.nn.functional as F
from small_models import model_factory, norm_factory


def cnn(norm="none", input_shape=(1, 8, 8), **options):
    return model_factory("cnn", **options)(input_shape, 10, norm_factory(norm))


def convolutions(model):
    return [site.module for site in model.sites() if site.kind == "linear"][:-1]


def test_cnn_matches_its_formula():
    model = cnn(depth=[1, 2], width=4).double()
    images = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    first, second, third = convolutions(model)
    x = F.conv2d(images, first.weight, padding=1).relu()
    x = x.unflatten(3, (4, 2)).unflatten(2, (4, 2)).amax(dim=(3, 5))  # the maximum of each 2x2 square
    x = F.conv2d(F.conv2d(x, second.weight, padding=1).relu(), third.weight, padding=1).relu()
    expected = x.sum(dim=(2, 3)) / 16 @ model.output.weight.T
    assert torch.allclose(model(images), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": []}, r"depth=\[\]: give at least one stage"),
        ({"depth": [1, 0]}, r"depth=\[1, 0\]: give at least one stage, each of at least 1 convolution"),
        ({"depth": [1] * 5}, r"5 stages halve a side of 8 pixels to nothing; use fewer stages"),
        ({"width": 0}, "width=0: too small; use 1 or more"),
    ],
)
def test_bad_option_is_refused_in_one_line(options, message):
    with pytest.raises(ValueError, match=message) as refusal:
        cnn(**options)
    assert "\n" not in str(refusal.value)
