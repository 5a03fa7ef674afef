"""The numbers printed in the source documents. Comments name the statement: S01-S10, S29-S31, S42-S46 and so on."""

import pytest
import torch
from norms.layers import norm_factory

# S42
INPUT = torch.tensor(
    [[[4, 9, 3, 0], [3, 9, 7, 3], [7, 3, 1, 6]], [[6, 9, 8, 6], [6, 8, 4, 3], [6, 9, 1, 4]]],
    dtype=torch.float64,
)


def close(ours, expected, digits):
    torch.testing.assert_close(
        ours.detach().double(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=0.6 * 10**-digits
    )


# S42
def test_printed_input_is_what_seed_0_draws():
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(torch.randint(0, 10, (2, 3, 4), generator=generator).double(), INPUT)


# S43
def test_layer_norm_over_the_last_axis_gives_the_printed_numbers():
    expected = [
        [[0, 1.5430, -0.3086, -1.2344], [-0.9622, 1.3471, 0.5773, -0.9622], [1.1531, -0.5241, -1.3628, 0.7338]],
        [[-0.9622, 1.3471, 0.5773, -0.9622], [0.3906, 1.4321, -0.6509, -1.1717], [0.3430, 1.3720, -1.3720, -0.3430]],
    ]  # fmt: skip
    close(norm_factory("layernorm")(4, -1).double()(INPUT), expected, 4)
    close(INPUT.std(-1, correction=0), [[3.2404, 2.5981, 2.3848], [1.2990, 1.9203, 2.9155]], 4)


# S44
def test_layer_norm_over_the_last_two_axes_gives_the_printed_numbers():
    """LayerNorm([3, 4]) is our LayerNorm of 3 channels and 4 positions, its gain one per channel."""
    layer = norm_factory("layernorm")(3).double()
    close(layer(INPUT)[0, 0], [-0.2053, 1.5541, -0.5571, -1.6128], 4)
    close(INPUT.mean((1, 2)), [4.5833, 5.8333], 4)
    close(INPUT.std((1, 2), correction=0), [2.8419, 2.3746], 4)


# S46
def test_gain_starts_at_one_and_shift_at_zero():
    layer = norm_factory("layernorm")(4)
    assert torch.equal(layer.weight, torch.ones(4))
    assert torch.equal(layer.bias, torch.zeros(4))
    assert layer.weight.requires_grad


# S60
def test_means_and_deviations_are_the_printed_numbers():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    unbiased = norm_factory("layernorm_unbiased", "eps=0.0", "affine=none")(2).double()
    biased = norm_factory("layernorm", "eps=0.0", "affine=none")(2).double()
    close((x - x.mean(1, keepdim=True))[:, 1:] / unbiased(x)[:, 1:], [[0.7071], [0.7071]], 4)  # std(1)
    close((x - x.mean(1, keepdim=True))[:, 1:] / biased(x)[:, 1:], [[0.5], [0.5]], 4)  # unbiased=False
    batch = norm_factory("batchnorm", "ema_keep=0.0")(2).double()
    batch(x)
    close(batch.running_mean, [2.0, 3.0], 4)  # mean(0)


# S51
def test_annotated_layer_norm_of_a_one_hot_row_gives_the_printed_numbers():
    x = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    close(norm_factory("layernorm_annotated")(4)(x), [[1.5, -0.5, -0.5, -0.5]], 4)
    close(norm_factory("layernorm")(4)(x), [[1.7320, -0.5773, -0.5773, -0.5773]], 4)


# S31
def test_eval_output_shrinks_because_torch_stores_the_unbiased_variance():
    x = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    layer = norm_factory("batchnorm", "ema_keep=0.0", "eps=0.0")(1).double()
    close(layer(x), [[-1.0], [1.0]], 4)
    close(layer.eval()(x), [[-0.7071], [0.7071]], 4)
    consistent = norm_factory("batchnorm", "ema_keep=0.0", "eps=0.0", "running_correction=0")(1).double()
    consistent(x)
    close(consistent.eval()(x), [[-1.0], [1.0]], 4)


# S28, S29
@pytest.mark.parametrize(
    ("override", "fraction_of"),
    [
        ("ema_keep=1.0", "start"),  # what the source calls momentum 1, torch 0: never updated
        ("ema_keep=0.0", "last"),  # the source's momentum 0, torch's 1
        ("population_statistics=cumulative", "average"),  # what the source wants with momentum 1
    ],
)
def test_running_average_with_momentum_0_and_1_is_the_start_the_last_batch_or_the_mean(override, fraction_of):
    batches = [
        torch.full((4, 1), float(mean)) + torch.tensor([[-1.0], [1.0], [-1.0], [1.0]]) for mean in (1, 2, 6)
    ]
    layer = norm_factory("batchnorm", override)(1)
    for batch in batches:
        layer(batch)
    assert layer.running_mean.item() == pytest.approx({"start": 0, "last": 6, "average": 3}[fraction_of])
