"""What every choice in configs/norm promises, on dense layers, images and tokens. A new yaml is covered too."""

import copy

import pytest
import torch
from norms.layers import (
    CASES,
    DEVICES,
    LAYOUTS,
    NAMES,
    REFUSED,
    assert_same,
    build,
    norm_factory,
    outcome,
    sample,
    values,
)
from refusals import refused

from normexp.norms import kernels

every_case = pytest.mark.parametrize(("name", "layout"), CASES)
every_name = pytest.mark.parametrize("name", NAMES)


@every_case
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_shape_and_dtype_are_kept(name, layout, dtype, device):
    layer = norm_factory(name)(8, LAYOUTS[layout][1]).to(device)
    x = sample(layout, dtype=dtype).to(device)
    for training in (True, False):
        y = layer.train(training)(x)
        assert (y.shape, y.dtype) == (x.shape, dtype)
        assert y.isfinite().all()


@every_case
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_autocast_agrees_with_float32_within_bfloat16(name, layout, dtype, device):
    layer = norm_factory(name)(8, LAYOUTS[layout][1]).to(device)
    x = sample(layout, dtype=dtype).to(device)
    expected = copy.deepcopy(layer)(x.float())
    x.requires_grad_()
    with torch.autocast(device, torch.bfloat16):
        y = layer(x)
    y.float().square().sum().backward()
    assert y.dtype == x.grad.dtype == dtype
    torch.testing.assert_close(y.float(), expected, rtol=0.02, atol=0.03)


@every_case
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_native_kernels_equal_the_formula(name, layout, scale, device):
    """At every scale, so that eps is nothing, and all there is."""
    x = scale * sample(layout).to(device)
    assert kernels.usable(x)  # or the formula is compared with itself
    for training in (True, False):
        layers = [build(name, layout, native=native).train(training).to(device) for native in (True, False)]
        assert_same(*(outcome(layer, x) for layer in layers), rtol=1e-9, atol=1e-10)


@every_case
def test_only_declared_batch_statistics_let_samples_see_each_other(name, layout):
    for training in (True, False):
        layer, x = build(name, layout).train(training), sample(layout)
        changed = torch.cat([values(x.shape, seed=9)[:1], x[1:]])
        others = [copy.deepcopy(layer)(inputs)[1:] for inputs in (x, changed)]
        depends = not torch.equal(*others)
        assert depends == (layer.batch_statistics and training)


@every_case
def test_training_differs_from_eval_exactly_where_batch_statistics_are_declared(name, layout):
    layer, x = build(name, layout), sample(layout)
    trained, evaluated = (copy.deepcopy(layer).train(mode)(x) for mode in (True, False))
    assert torch.equal(trained, evaluated) == (not layer.batch_statistics)


ON_TOKENS = [(name, ()) for name in NAMES if (name, "tokens") not in REFUSED]
ON_TOKENS += [("switchablenorm_layer_batch", ("combine=[layer]",))]


@pytest.mark.parametrize(("name", "options"), ON_TOKENS)
def test_only_declared_norms_let_tokens_see_each_other(name, options):
    layer, x = build(name, "tokens", *options), sample("tokens")[:2]
    changed = torch.cat([x[:, :-1], values(x.shape, seed=9)[:, -1:]], dim=1)
    earlier = [copy.deepcopy(layer)(inputs)[:, :-1] for inputs in (x, changed)]
    assert (not torch.equal(*earlier)) == layer.mixes_tokens


@every_case
def test_state_dict_goes_round_and_training_continues_the_same(name, layout):
    layer = build(name, layout)
    for seed in range(3):
        layer(sample(layout, seed))
    resumed = norm_factory(name)(8, LAYOUTS[layout][1], layer=3).double()
    resumed.load_state_dict(layer.state_dict())
    assert_same(outcome(resumed, sample(layout, 7)), outcome(layer, sample(layout, 7)), rtol=0, atol=0)


@every_name
def test_random_stream_is_left_alone(name):
    torch.manual_seed(0)
    before = torch.get_rng_state()
    build(name, "image")(sample("image"))
    assert torch.equal(before, torch.get_rng_state())


@every_name
def test_wrong_sizes_are_refused_with_argument_value_and_remedy(name):
    for x, channel_dim in ((torch.ones(4, 7), 1), (torch.ones(4, 8, 7), -1), (torch.ones(8), 1)):
        with refused(r"x\.shape=\(.*\): expected 8 features at axis .*; build the norm"):
            norm_factory(name)(8, channel_dim)(x)
    with refused(r"num_features=0: .*; use 1 or more"):
        norm_factory(name)(0)
    with refused(r"channel_dim=2: .*; use"):
        norm_factory(name)(8, 2)


WRONG = {
    "layernorm": ["eps=-1.0", "correction=2", "eps_position=beside", "affine=some", "detach=sdt"],
    "batchnorm": ["ema_keep=1.5", "running_correction=2", "virtual_batch_size=0", "population_statistics=emma",
                  "deviation=l3"],
    "batchnorm_frozen": ["freeze_after=-1"],
    "batchnorm_noisy": ["scale_max=0.5", "mean_spread=-0.1"],
    "batchrenorm": ["r_max=0.5"],
    "dyt": ["function=relu"],
    "groupnorm": ["num_groups=3"],
    "powernorm": ["warmup_steps=-1", "gradient_keep=2"],
    "rmsnorm": ["fraction=0.0"],
    "scalenorm": ["affine=trained"],
    "switchablenorm": ["ema_keep=-1", "combine=[group]"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "option"), [(name, option) for name in WRONG for option in WRONG[name]])
def test_wrong_options_are_refused_in_one_line_with_a_remedy(name, option):
    key, _, value = option.partition("=")
    with refused(rf"{key}=.*{value.strip('[]')}.*: .*[;?] use"):
        norm_factory(name, option)(8)


@pytest.mark.parametrize(("name", "layout"), sorted(REFUSED))
def test_layers_with_nothing_to_normalize_over_refuse_in_one_line(name, layout):
    with refused("nothing to normalize over; use norm"):
        build(name, layout)(sample(layout))


@pytest.mark.parametrize("native", [True, False], ids=["native", "formula"])
@pytest.mark.parametrize(
    ("name", "size", "option"),
    [("layernorm", 1, "eps=1e-5"), ("adanorm", 1, "eps=1e-5"), ("groupnorm", 4, "num_groups=4")],
)
@pytest.mark.parametrize("channel_dim", [1, -1])
def test_one_value_has_no_unbiased_variance(name, size, option, channel_dim, native):
    layer = norm_factory(name, "correction=1", option)(size, channel_dim)
    layer.native = native
    with refused(r"correction=1: the one value to normalize has .*; use correction=0"):
        layer(torch.ones(3, 2, size) if channel_dim == -1 else torch.ones(3, size))


@every_case
@pytest.mark.parametrize("native", [True, False], ids=["native", "formula"])
def test_constant_input_gives_finite_output_and_gradients(name, layout, native):
    """A mean of 3.3 is no power of two: kernels that do not center lose the gradient there."""
    for training in (True, False):
        layer = norm_factory(name)(8, LAYOUTS[layout][1]).train(training)
        layer.native = native
        result = outcome(layer, torch.full(LAYOUTS[layout][0], 3.3))
        assert all(value.isfinite().all() for value in result.values())


@every_case
def test_float32_follows_float64_on_constant_input(name, layout):
    """The gradient is as large as 1 / eps there, and a rounded mean may show in the output multiplied by that."""
    x = torch.full(LAYOUTS[layout][0], 3.25)  # exact in both, so that both see a deviation of 0
    layer = norm_factory(name)(8, LAYOUTS[layout][1])
    single, double = outcome(layer, x), outcome(copy.deepcopy(layer).double(), x.double())
    outside = layer.eps_position == "outside"
    amplified = 2**-23 * 3.25 / (layer.eps if outside else max(layer.eps, 1e-10) ** 0.5)
    torch.testing.assert_close(single["output"].double(), double["output"], rtol=1e-5, atol=amplified)
    largest = double["gradient of x"].abs().max().item()
    gradients = single["gradient of x"].double(), double["gradient of x"]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-4 * largest)
