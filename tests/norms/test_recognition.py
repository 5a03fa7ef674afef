"""Norms of strangers are recognized by what they compute, and what is not understood is said."""

import copy

import pytest
import torch
from norms import strangers
from norms.layers import NAMES, norm_factory
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn.utils import parametrize
from torchvision.ops import FrozenBatchNorm2d

import normexp
from normexp.models.sites import derived_sites
from normexp.norms.layers import NormLayer, is_norm, norm_layer

TINY = 1e-20  # of F.normalize, which adds nothing and is finite at 0
KNOWN = {
    "nanoGPT": (strangers.GPTLayerNorm(8), ("layer", 8, -1, 1e-6)),
    "nanoGPT without shift": (strangers.GPTLayerNorm(8, bias=False), ("layer", 8, -1, 1e-6)),
    "lucidrains": (strangers.LengthRMSNorm(8), ("rms", 8, -1, TINY)),
    "lucidrains on images": (strangers.LengthRMSNorm(8, dim=1), ("rms", 8, 1, TINY)),
    "ScaleNorm": (strangers.ScaleNorm(8), ("rms", 8, -1, 1e-10 / 8)),
    "OLMo": (strangers.BareLayerNorm(8), ("layer", 8, -1, 1e-5)),
    "DyT": (strangers.DynamicTanh(8), ("pointwise", 8, -1, 0.0)),
    "Cohere": (strangers.HeadLayerNorm(8), ("layer", 8, -1, 1e-5)),
    "Cohere's heads": (strangers.HeadLayerNorm(4, 6), ("layer", 6, -1, 1e-5)),
    "unnamed": (strangers.Rooted(8), ("rms", 8, -1, 1.0)),
    "annotated": (strangers.AnnotatedLayerNorm(8), ("layer", 8, -1, 1e-6)),
    "gated": (strangers.GatedRMSNorm(8), ("rms", 8, -1, 1.0)),
    "pixel": (strangers.PixelNorm(), ("rms", 0, 1, 1e-8)),
    "own batch": (strangers.OwnBatchNorm(8), ("batch", 8, 1, 1e-5)),
    "own group": (strangers.OwnGroupNorm(8, 2), ("group", 8, 1, 1e-6)),
    "frozen": (FrozenBatchNorm2d(8), ("batch", 8, 1, 1e-5)),
    "renamed": (strangers.RenamedBatchNorm(8), ("batch", 8, 1, 1e-5)),
    "two wide": (strangers.GPTLayerNorm(2), ("layer", 2, -1, 1e-6)),
    "wide": (strangers.Rooted(768, eps=1e-5), ("rms", 768, -1, 1e-5)),
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_norm_is_recognized_by_its_outputs(name, dtype):
    layer, expected = KNOWN[name]
    found = norm_layer(copy.deepcopy(layer).to(dtype))
    assert isinstance(found, NormLayer)
    assert (found.kind, found.num_features, found.channel_dim) == expected[:3]
    if expected[3] is TINY:
        assert 0 < found.eps < TINY
    else:
        assert found.eps == pytest.approx(expected[3])
    assert is_norm(layer)


def reparametrized(layer):
    parametrize.register_parametrization(layer, "weight", nn.Softplus(), unsafe=True)
    return layer


def patched(layer):
    layer.forward = lambda x, inner=layer.forward: inner(x).relu()
    return layer


STAYING = {
    "ReLU": (strangers.ReLUBatchNorm(8), "batch", "its forward does more"),
    "conditional": (strangers.ConditionalBatchNorm(8), "batch", "takes more than its input: label"),
    "gated": (strangers.GatedRMSNorm(8), "rms", "takes more than its input: gate"),
    "heads": (strangers.HeadLayerNorm(4, 6), "layer", "a gain of shape (4, 6)"),
    "reparametrized": (reparametrized(nn.BatchNorm2d(8)), "batch", "computed from other parameters"),
    "patched": (patched(nn.LayerNorm(8)), "layer", "its forward was replaced"),
    "pixel": (strangers.PixelNorm(), "rms", "does not say how many channels"),
}


@pytest.mark.parametrize("name", STAYING)
def test_what_cannot_be_replaced_says_why_and_keeps_its_kind(name):
    layer, kind, reason = STAYING[name]
    found = norm_layer(layer)
    assert found.kind == kind
    assert reason in found.stays


class Clipped(nn.RMSNorm):
    def forward(self, x):
        return super().forward(x).clamp(-10, 10)


class HandClipped(strangers.LengthRMSNorm):
    def forward(self, x):
        return super().forward(x).clamp(-10, 10)


class CutLayerNorm(nn.LayerNorm):
    def forward(self, x):
        return nn.functional.layer_norm(x, (8,), self.weight.clamp(0.1, 2), self.bias, self.eps)


class CutBatchNorm(strangers.OwnBatchNorm):
    def forward(self, x):
        own = (1 / self.gamma * self.gamma.clamp(0.1, 2))[:, None, None]
        beta = self.beta[:, None, None]
        return (super().forward(x) - beta) * own + beta


def of_gain(make):
    class RMSNorm(strangers.Rooted):
        def forward(self, x):
            return nn.functional.rms_norm(x, x.shape[-1:], make(self.gamma), self.eps)

    return RMSNorm(8)


CUT = {  # what cuts its outputs or its gain, and the same layer without the cut
    "outputs": (Clipped(256), nn.RMSNorm(256)),  # up to 16 leave it: an outlier alone shows it
    "outputs by hand": (HandClipped(256), strangers.LengthRMSNorm(256)),
    "outputs that no input reaches": (None, Clipped(16)),  # up to 4, and gains of 1.5
    "a gain of a subclass": (CutLayerNorm(8), nn.LayerNorm(8)),
    "a gain of batches": (CutBatchNorm(8), strangers.OwnBatchNorm(8)),
    "a clamped gain": (of_gain(lambda w: w.clamp(0.1, 2)), of_gain(lambda w: 1 + w)),
    "a gain in wide bounds": (of_gain(lambda w: w.clamp(-9, 9)), None),
    "a positive gain": (of_gain(torch.relu), None),
    "a gain without sign": (of_gain(torch.abs), None),
}


@pytest.mark.parametrize("what", CUT)
def test_what_cuts_its_outputs_or_its_gain_stays(what):
    cut, whole = CUT[what]
    assert cut is None or "that clips" in norm_layer(cut).stays
    assert whole is None or not norm_layer(whole).stays


class Dropped(nn.LayerNorm):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.5, self.training)


class Gate(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x, gate):
        return nn.functional.rms_norm(x * gate, self.weight.shape, self.weight)


def test_a_norm_is_never_passed_over():
    for layer in (Dropped(8), strangers.GlobalResponseNorm(8), strangers.NoisyNorm(8)):
        assert "computes something else" in norm_layer(layer)
        assert is_norm(layer)
    assert "for a tensor alone" in norm_layer(Gate(8), "mixer.norm")
    assert norm_layer(Gate(8), "mixer.gate") is None


NO_NORMS = (
    strangers.LayerScale(8), nn.Identity(), nn.PReLU(8), nn.Linear(8, 8), nn.Dropout(), nn.GELU(), nn.Softmax(-1),
)  # fmt: skip


@pytest.mark.parametrize("layer", NO_NORMS, ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("path", ["", "block.norm1", "norms.3"])
def test_what_is_no_norm_is_none_wherever_it_stands(layer, path):
    assert norm_layer(layer, path) is None
    assert not is_norm(layer, path)


def test_an_attribute_names_a_norm_whose_class_does_not():
    class Bare(nn.Module):
        def forward(self, x):
            return x - x.mean(-1, keepdim=True)

    class Unit(nn.Module):
        def forward(self, x):
            return torch.nn.functional.normalize(x, dim=-1)

    norms = nn.ModuleList([Unit()])
    net = nn.ModuleDict({"ln_1": Unit(), "scale": Unit(), "norms": norms, "norm_mean": Bare()})
    norms = [site.layer for site in derived_sites(net) if site.kind == "norm"]
    assert [name.split("_", 1)[1] for name in norms] == ["ln_1", "norms_0"]


def test_recognition_leaves_no_trace():
    layer = strangers.CountingNorm(8).half()
    before, random = {k: v.clone() for k, v in layer.state_dict().items()}, torch.get_rng_state()
    assert norm_layer(layer).kind == "layer"
    assert (layer.calls, layer.seen) == (0, [])
    assert all(torch.equal(value, before[key]) for key, value in layer.state_dict().items())
    assert norm_layer(strangers.NoisyNorm(8))
    assert torch.equal(torch.get_rng_state(), random)


class Passing(nn.Module):
    """Gives the attributes of the layer inside as its own, as FSDP does."""

    def __init__(self, inner):
        super().__init__()
        self._wrapped = inner

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._modules["_wrapped"], name)

    def forward(self, x):
        return self._wrapped(x)


class Twofold(strangers.NoisyNorm):
    """Keeps running statistics, and so does a layer inside."""

    def __init__(self, size):
        super().__init__(size)
        self.inner = nn.BatchNorm1d(size)
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, torch.ones(size))

    def forward(self, x):
        return (self.inner(x) - self.running_mean) / self.running_var


@pytest.mark.parametrize("make", [Passing, checkpoint_wrapper])
@pytest.mark.parametrize("norm", [lambda: nn.BatchNorm1d(8), lambda: norm_factory("batchnorm")(8)])
def test_a_wrapper_is_none_of_the_norm_inside_which_stays_as_it_is(make, norm):
    wrapped = make(norm())
    before = copy.deepcopy(wrapped.state_dict())
    assert norm_layer(wrapped, "norm") is None
    assert not is_norm(wrapped, "norm")
    assert [site.kind for site in derived_sites(nn.Sequential(wrapped))] == ["norm"]
    assert all(torch.equal(value, before[key]) for key, value in wrapped.state_dict().items())


def test_a_layer_inside_one_that_is_tried_stays_as_it_is():
    layer = Twofold(8)
    norm_layer(layer)
    assert not layer.inner.running_mean.any()
    assert layer.inner.num_batches_tracked == 0


class Ghost(nn.BatchNorm1d):
    def __init__(self, size, parts):
        super().__init__(size)
        self.parts = parts

    def forward(self, x):
        return torch.cat([super(Ghost, self).forward(part) for part in x.split(self.parts)]).relu()


@pytest.mark.parametrize(("parts", "known"), [(4, False), (128, False), (10_000, True)])
def test_a_batchnorm_of_parts_of_the_batch_is_not_taken_for_one_of_all(parts, known):
    found = norm_layer(Ghost(8, parts))
    assert (found == "takes statistics of parts of the batch") != known
    result = normexp.check(nn.Sequential(nn.Linear(6, 8), Ghost(8, parts)), torch.randn(32, 6))
    assert ("small_batch" in result.healthy) == known


AXES = [  # a layer, what comes in, and what is said of its axes
    (nn.BatchNorm1d(8), (6, 8), "each of 8 channels (axis 1), over 6 samples"),
    (
        nn.BatchNorm1d(12),
        (4, 12, 6),
        "12 channels (axis 1), over 4 samples and 6 positions (axis 2): 24 values",
    ),
    (nn.BatchNorm2d(8), (6, 8, 3, 4), ""),
    (nn.LayerNorm(8), (6, 5, 8), ""),
    (nn.LayerNorm((5, 8)), (6, 5, 8), "for each sample, over 40 channels (axes 1, 2): 40 values"),
    (nn.RMSNorm(8), (2, 4, 5, 8), "position (axes 0, 1, 2), over 8 channels (axis 3): 8 values"),
    (
        nn.GroupNorm(2, 8),
        (6, 8, 3, 4),
        "2 groups of 4 channels (axis 1), over the channels of a group and 12 pos",
    ),
    (nn.InstanceNorm2d(8), (6, 8, 3, 4), "each of 8 channels (axis 1), over 12 positions (axes 2, 3)"),
    (
        nn.InstanceNorm1d(8),
        (8, 7),
        "each of 8 along axis 0, which it takes for channels of one sample, over axis 1",
    ),
    (strangers.LengthRMSNorm(8, dim=1), (6, 8, 3, 4), ""),
    (strangers.HeadLayerNorm(4, 6), (3, 5, 4, 6), ""),
    (strangers.OwnGroupNorm(8, 4), (6, 8, 3), ""),
    (strangers.DynamicTanh(8), (6, 5, 8), None),  # has no statistic
]


@pytest.mark.parametrize(("layer", "shape", "words"), AXES, ids=lambda value: type(value).__name__)
def test_axes_are_those_that_one_input_reaches_and_are_said(layer, shape, words):
    """Twin: one input is changed; the outputs that change share its statistic."""
    layer, found = copy.deepcopy(layer).double(), norm_layer(layer)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    changed = x.clone()
    changed[(0,) * len(shape)] += 1.0
    reached = (layer(x) - layer(changed)).abs() > 1e-12
    dims = tuple(dim for dim in range(len(shape)) if reached.movedim(dim, 0).flatten(1).any(1).sum() > 1)
    assert dims == found.dims(len(shape))
    assert int(reached.sum()) == (1 if words is None else found.values(shape))
    if words is not None:
        assert found.description(shape).startswith("one statistic for each ")
        assert words in found.description(shape)


def test_the_kind_of_a_norm_is_its_own_whatever_was_seen_before():
    """Four groups of four channels are instances, of eight they are groups."""
    make = norm_factory("groupnorm")
    kinds = {width: norm_layer(make(width, num_groups=4)).kind for width in (4, 8, 12, 4)}
    assert kinds == {4: "instance", 8: "group", 12: "group"}


@pytest.mark.parametrize("name", NAMES)
def test_norms_of_the_project_say_their_kind(name):
    made = norm_factory(name)(8)
    found = norm_layer(made)
    declared = {"batchnorm": "batch", "groupnorm": "group", "instancenorm": "instance", "rmsnorm": "rms"}
    kinds = {kind for prefix, kind in declared.items() if name.startswith(prefix)}
    assert isinstance(found, NormLayer)
    assert found.kind in (kinds or {"layer", "rms", "batch", "pointwise"})
    assert (found.kind == "pointwise") == made.pointwise
    assert (found.kind == "batch") == made.batch_statistics


@pytest.mark.parametrize("seed", range(40))
def test_any_formula_is_read_off(seed):
    """A norm of a random formula, under names that say nothing: its twin is the formula itself."""
    random = torch.Generator().manual_seed(seed)
    draw = lambda *choices: choices[int(torch.randint(len(choices), (), generator=random))]  # noqa: E731
    channel_dim, centers, correction = draw(1, -1), draw(True, False), draw(0, 1)
    eps = draw(1e-5, 1e-6, 1e-3, 3e-4, 0.1)
    position, form = draw("inside", "outside"), draw("g", "1+g", "none")
    size, whole = draw(3, 8, 16), draw(True, False)

    class Thing(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.q, self.tiny = nn.Parameter(torch.zeros(size)), nn.Parameter(torch.zeros(size)), eps

        def forward(self, x):
            assert (x.dim(), x.shape[channel_dim]) == (4, size)
            dims = (1, 2, 3) if whole and channel_dim == 1 else channel_dim
            y = x - x.mean(dims, keepdim=True) if centers else x
            count = x[0].numel() if isinstance(dims, tuple) else size
            var = y.square().sum(dims, keepdim=True) / (count - correction)
            y = y / (torch.sqrt(var + eps) if position == "inside" else torch.sqrt(var) + eps)
            gain = {"g": self.p, "1+g": 1 + self.p, "none": torch.ones(size)}[form]
            return (y.movedim(channel_dim, -1) * gain + self.q).movedim(-1, channel_dim)

    found = norm_layer(Thing())
    assert isinstance(found, NormLayer)
    assert (found.kind, found.channel_dim) == ("layer" if centers else "rms", channel_dim)
    assert (found.correction, found.eps_position) == (correction, position)
    assert found.eps == pytest.approx(eps)
    assert found.dims(4) == ((3,) if channel_dim == -1 else (1, 2, 3) if whole else (1,))
    gain = {"g": 0.0, "1+g": 1.0}.get(form)
    assert found.gain is None if gain is None else torch.equal(found.gain, torch.full((size,), gain))
    assert torch.equal(found.shift, torch.zeros(size))


@pytest.mark.parametrize("var", [None, (), (1, 6), (6,)])
@pytest.mark.parametrize("mean", [None, (), (1, 6), (6,)])
def test_running_statistics_of_any_form_that_no_pass_uses(mean, var):
    """A class that names running statistics and keeps none, or keeps them in a form of its own, is asked about."""

    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.eps, self.weight = 1e-5, nn.Parameter(torch.ones(6))
            self.register_buffer("running_mean", None if mean is None else torch.zeros(mean))
            self.register_buffer("running_var", None if var is None else torch.ones(var))

        def forward(self, x):
            return (x - x.mean(0)) * (x.var(0, correction=0) + self.eps).rsqrt() * self.weight

    found = norm_layer(Running())
    assert found.kind == "batch"
    assert bool(found.stays) == (mean is not None and mean == var)
    assert found.stays or found.num_features == 6
