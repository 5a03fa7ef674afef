"""What every model promises under every norm of configs/norm."""

import inspect
from functools import cache

import pytest
import torch
from hydra.utils import get_class
from omegaconf import OmegaConf
from refusals import refused
from small_models import (
    CONFIGS,
    IMAGE,
    NORMS,
    SMALL,
    loss_of,
    model_factory,
    norm_factory,
    small_batch,
    small_model,
    weights_outside_norms,
)
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

IMAGE_MODELS = [name for name, (sizes, _) in SMALL.items() if sizes is IMAGE]


def names_of(model):
    return [(site.layer, site.kind) for site in model.sites()]


@cache
def reference(name):
    model = small_model(name, "none")
    return names_of(model), weights_outside_norms(model)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", SMALL)
def test_model_trains_one_step_and_starts_like_every_other_norm(name, norm):
    inputs, targets = small_batch(name)
    try:
        model = small_model(name, norm)
        logits = model(inputs)
    except ValueError as refusal:
        pytest.skip(f"refused: {refusal}")
    weights, (names, expected) = weights_outside_norms(model), reference(name)
    assert names_of(model) == names
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[key], expected[key]) for key in expected)

    num_classes = SMALL[name][0][1]
    assert logits.shape == ((*inputs.shape, num_classes) if inputs.dim() == 2 else (4, num_classes))
    loss_of(logits, targets).backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    assert any(p.grad.count_nonzero() for p in weights.values())


@pytest.mark.parametrize("name", SMALL)
def test_sites_are_called_in_the_order_in_which_they_are_listed(name):
    model, called = small_model(name), []
    for site in model.sites():
        site.module.register_forward_hook(lambda *_, site=site: called.append((site.layer, site.kind)))
    model(small_batch(name)[0])
    assert called == names_of(model)


@pytest.mark.parametrize("name", SMALL)
def test_sites_name_every_linear_map_and_every_norm(name):
    model = small_model(name)
    sites = {kind: {s.module for s in model.sites() if s.kind == kind} for kind in ("linear", "norm")}
    assert sites["linear"] == {m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)}
    assert sites["norm"] == {m for m in model.modules() if type(m).__module__.startswith("normexp.norms")}


@pytest.mark.parametrize("name", SMALL)
def test_biases_start_at_zero_and_exist_unless_they_are_off(name):
    linear = [site.module for site in small_model(name).sites() if site.kind == "linear"]
    if SMALL[name][1].get("bias", True):
        assert all(module.bias.count_nonzero() == 0 for module in linear)
    else:
        assert all(module.bias is None for module in linear)


@pytest.mark.parametrize("name", SMALL)
def test_weight_norm_gets_each_initialized_linear_map_and_its_result_is_used(name):
    class Wrapped(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module, self.at_wrapping = module, module.weight.detach().clone()

        def forward(self, x):
            return self.module(x)

    try:
        plain, wrapped = small_model(name), small_model(name, weight_norm=Wrapped)
    except (TypeError, ValueError):
        pytest.skip("has no option weight_norm, or not with its other options")
    sites = zip(plain.sites(), wrapped.sites(), strict=True)
    pairs = [(a.module, b.module) for a, b in sites if a.kind == "linear"]
    assert all(torch.equal(module.weight, wrapper.at_wrapping) for module, wrapper in pairs)
    inputs, _ = small_batch(name)
    assert torch.equal(plain(inputs), wrapped(inputs))


@pytest.mark.parametrize("name", SMALL)
def test_second_derivatives_match_differences_of_gradients(name):
    model = small_model(name, "none").double()
    inputs, targets = small_batch(name)
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    parameters = list(model.parameters())
    direction = [torch.randn_like(p) for p in parameters]

    def gradient(create_graph=False):
        return torch.autograd.grad(loss_of(model(inputs), targets), parameters, create_graph=create_graph)

    with sdpa_kernel(SDPBackend.MATH):
        along = sum((g * d).sum() for g, d in zip(gradient(create_graph=True), direction, strict=True))
        product = torch.autograd.grad(along, parameters)
        step, shifted = 1e-8, []  # small, so that no ReLU changes sides
        for sign in (1, -2):  # to +step, then to -step
            with torch.no_grad():
                for p, d in zip(parameters, direction, strict=True):
                    p.add_(d, alpha=sign * step)
            shifted.append(gradient())
    for exact, above, below in zip(product, *shifted, strict=True):
        assert torch.allclose(exact, (above - below) / (2 * step), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_channels_last_images_give_the_same_logits(name):
    model = small_model(name)
    images, _ = small_batch(name)
    expected = model(images)
    logits = model.to(memory_format=torch.channels_last)(images.to(memory_format=torch.channels_last))
    assert torch.allclose(logits, expected, atol=1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_bfloat16_autocast_stays_near_float32(name):
    model = small_model(name)
    inputs, targets = small_batch(name)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(model(inputs), targets)
    loss.backward()
    assert torch.allclose(loss, loss_of(model(inputs), targets), atol=0.1)
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("options", [{}, {"initialization": "orthogonal"}], ids=["defaults", "orthogonal"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "resnet"])
def test_image_model_builds_and_runs_on_the_meta_device(name, options):
    with torch.device("meta"):
        model = model_factory(name, **options)((1, 8, 8), 10, norm_factory("layernorm"))
        logits = model(torch.zeros(2, 1, 8, 8))
    assert (logits.device.type, logits.shape) == ("meta", (2, 10))


@pytest.mark.parametrize("path", sorted((CONFIGS / "model").glob("*.yaml")), ids=lambda path: path.stem)
def test_yaml_shows_every_option_of_its_model(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ")
    options = lines[lines.index("") :] if "defaults:" in lines else lines  # above stands the model's recipe
    assert all("#" in line for line in options if line and not line.startswith("_"))
    keys = {key for key in OmegaConf.load(path) if not key.startswith("_") and key != "defaults"}
    signature = inspect.signature(get_class(OmegaConf.load(path)["_target_"]))
    assert keys == {p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY}


TOO_SMALL = "too small; use 1 or more"
REFUSED = [  # model, options, what is said
    ("mlp", {"depth": 0}, f"depth=0: {TOO_SMALL}"),
    ("mlp", {"width": -3}, f"width=-3: {TOO_SMALL}"),
    ("mlp", {"activation": "swish"}, "activation=swish: unknown; use one of relu, gelu, tanh, "),
    ("mlp", {"norm_position": "pre"}, "norm_position=pre: unknown; use one of pre_activation, post_activation"),
    ("mlp", {"initialization": "lecun"}, "initialization=lecun: unknown; use one of he, xavier, "),
    ("mlp", {"initialization": "dirac"}, "initialization=dirac: sets filters, and an MLP has none"),
    ("cnn", {"depth": []}, r"depth=\[\]: give at least one stage"),
    ("cnn", {"depth": [1, 0]}, r"depth=\[1, 0\]: give at least one stage, each of at least 1 convolution"),
    ("cnn", {"depth": [1] * 5}, "5 stages halve a side of 8 pixels to nothing; use fewer stages"),
    ("cnn", {"depth": [1] * 4, "pool": "first"}, "pool=first: 4 stages"),
    ("cnn", {"width": 0}, f"width=0: {TOO_SMALL}"),
    ("cnn", {"pool": "last"}, "pool=last: .*; use"),
    ("resnet", {"depth": 18}, r"depth=18: must be 6n \+ 2; use 8, 14, 20"),
    ("resnet", {"depth": 2}, r"depth=2: must be 6n \+ 2"),
    ("resnet", {"width": 0}, f"width=0: {TOO_SMALL}"),
    ("resnet", {"alpha": 0.0}, "alpha=0.0: must be positive; use 0.2"),
    ("resnet", {"alpha": 0.2, "skip": False}, "alpha=0.2: scales what is added to .*; set skip=true"),
    ("transformer", {"patch_size": 3}, "patch_size=3: patches of 3 pixels .* a 8x8 image; use one of 1, 2, 4, 8"),
    ("transformer", {"patch_size": 0}, f"patch_size=0: {TOO_SMALL}"),
    ("transformer", {"input_shape": (1, 30, 30)}, "patch_size=None: .* do not tile a 30x30 image; use one of 1, 2"),
    ("transformer", {"heads": 3}, "heads=3: do not divide width=64; choose a divisor"),
    ("transformer", {"heads": 0}, f"heads=0: {TOO_SMALL}"),
    ("transformer", {"depth": 0}, f"depth=0: {TOO_SMALL}"),
    ("transformer", {"width": 0}, f"width=0: {TOO_SMALL}"),
    ("transformer", {"mlp_ratio": 0}, f"mlp_ratio=0: {TOO_SMALL}"),
    ("transformer", {"dropout": 1.0}, "dropout=1.0: must be at least 0 and below 1"),
    ("transformer", {"norm_position": "peri"}, "norm_position=peri: unknown; use one of pre, post, sandwich, "),
    ("transformer", {"initialization": "he"}, "initialization=he: unknown; use one of gpt2, xavier, plain, "),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options", "message"), REFUSED, ids=str)
def test_bad_option_is_refused_in_one_line(name, options, message):
    shape = options.get("input_shape", (1, 8, 8))
    options = {key: value for key, value in options.items() if key != "input_shape"}
    with refused(message):
        model_factory(name, **options)(shape, 10, norm_factory("none"))
