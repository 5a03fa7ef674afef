"""Every norm in every memory layout, far from zero: output and gradients against float64.

An offset of r deviations costs any formula in floating point a relative error of about r units in the last place: the
mean itself is stored with that error. A formula that cancels, E[x^2] - E[x]^2, loses r^2 of them.
"""

import copy

import pytest
import torch
from norms.layers import NAMES, REFUSED, norm_factory, outcome, randomized

from normexp.norms import kernels

C = 32
DENSE, IMAGE, VOLUME, TOKENS = (32, C), (8, C, 6, 6), (8, C, 3, 4, 4), (8, 12, C)
LAST, LAST_3D = torch.channels_last, torch.channels_last_3d
LAYOUTS = {
    "dense": (DENSE, lambda x: x),
    "image": (IMAGE, lambda x: x),
    "image, channels last": (IMAGE, lambda x: x.contiguous(memory_format=LAST)),
    "image, half of its channels": (
        IMAGE,
        lambda x: x.repeat(1, 2, 1, 1).contiguous(memory_format=LAST)[:, :C],
    ),
    "image, each second value": (
        IMAGE,
        lambda x: x.movedim(1, 3).repeat_interleave(2, 3)[..., ::2].movedim(3, 1),
    ),
    "image, width before height": (IMAGE, lambda x: x.transpose(2, 3).contiguous().transpose(2, 3)),
    "volume": (VOLUME, lambda x: x),
    "volume, channels last": (VOLUME, lambda x: x.contiguous(memory_format=LAST_3D)),
    "tokens": (TOKENS, lambda x: x),
    "tokens, channels first": (TOKENS, lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)),
}
GHOST = {"batchnorm_ghost": ("virtual_batch_size=8",)}
# More would leave of the inputs in half precision no digit that tells them apart.
OFFSETS = {torch.float32: (0, 300, 3000, 30_000), torch.bfloat16: (0, 30), torch.float16: (0, 300)}
MEANS = ("layernorm", "groupnorm", "instancenorm")


def errors(name: str, layout: str, offset: float, dtype: torch.dtype) -> dict[str, float]:
    """The relative error of each result, in units in the last place of `dtype` at its largest value."""
    shape, arrange = LAYOUTS[layout]
    generator = torch.Generator().manual_seed(len(layout))
    x, direction = (torch.randn(shape, generator=generator) for _ in range(2))
    x = arrange((x + offset).to(dtype))
    layer = randomized(norm_factory(name, *GHOST.get(name, ()))(C, -1 if shape == TOKENS else 1, layer=3))
    twin = copy.deepcopy(layer).double()
    torch.manual_seed(0)
    found = outcome(layer, x, direction)
    torch.manual_seed(0)
    right = outcome(twin, x.double(), direction.to(dtype).double())
    result = {}
    for key, wanted in right.items():
        if wanted is not None and wanted.is_floating_point():
            scale = wanted.abs().max().clamp_min(1e-30)
            unit = torch.finfo(dtype).eps
            result[key] = float((found[key].double() - wanted).abs().max() / scale / unit)
    return result


def unsteady(name: str, key: str) -> bool:
    """Whether a result has no digits of its own far from zero: the slope of |x - mean| jumps where x is the mean, and
    SwitchableNorm's mixture gets the small difference of means."""
    if name.endswith(("_l1", "_linf")):
        return key == "gradient of x"
    return key in ("gradient of mean_weight", "gradient of var_weight")


def too_wrong(name: str, layout: str, offset: float, dtype: torch.dtype) -> dict[str, float]:
    """The results that are further from float64 than rounding takes them."""
    found = {}
    for key, error in errors(name, layout, offset, dtype).items():
        limit = 50 if key.startswith("gradient of") and key != "gradient of x" else 8  # sums may cancel
        limit = 2 if dtype != torch.float32 else limit * (1 + offset)
        if error > limit and not unsteady(name, key):
            found[key] = error
    return found


@pytest.mark.parametrize("dtype", OFFSETS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_float64_at_every_offset(name, layout, dtype):
    if (name, layout.split(",")[0]) in REFUSED:
        pytest.skip("refused")
    wrong = {offset: too_wrong(name, layout, offset, dtype) for offset in OFFSETS[dtype]}
    assert not any(wrong.values()), wrong


@pytest.mark.parametrize("layout", ["image, channels last", "volume, channels last"])
@pytest.mark.parametrize("name", MEANS)
def test_torchs_kernel_alone_would_be_seen(name, layout, monkeypatch):
    monkeypatch.setattr(kernels, "cancels", lambda x: False)
    assert {"output", "gradient of x"} <= too_wrong(name, layout, 3000, torch.float32).keys()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["layernorm", "layernorm_bias", "groupnorm", "batchnorm", "rmsnorm"])
def test_half_precision_sums_parameter_gradients_in_float32(name, dtype):
    """A sum of 4,000 values in bfloat16 would stop growing at 256. Parameters may have half precision, too."""
    x = torch.randn(4000, 32, generator=torch.Generator().manual_seed(0)).bfloat16()
    layer = norm_factory(name)(32, 1).to(dtype)
    found = outcome(layer, x, torch.ones(4000, 32))
    right = outcome(layer.double(), x.double(), torch.ones(4000, 32))
    for key in ("gradient of weight", "gradient of bias"):
        if key in right:
            rtol, atol = (1e-3, 0.1) if dtype == torch.float32 else (5e-3, 0.5)
            torch.testing.assert_close(found[key].double(), right[key], rtol=rtol, atol=atol)
