"""How norms stand in a network: each fault beside a healthy twin, with its number a second way."""

import pytest
import torch
from small_networks import Called, HandRMS, Own, WideRMSNorm, around, found, images, rows, tokens
from torch import nn
from torch.nn import functional as F

import normexp
from normexp.check.run import check


def calls(norm, *held):
    """A linear map, a norm in any form, or in a list that no module holds, and a linear map."""
    net = Own(lambda net, x: net.output(torch.relu((net.held[0] if net.held else net.call)(net.first(x)))))
    net.first, net.call, net.output, net.held = nn.Linear(6, 8), norm, nn.Linear(8, 3), held
    return net


def test_norm_that_nothing_holds():
    healthy = check(calls(nn.BatchNorm1d(8)), rows())
    listed = found("not_held", healthy, check(calls(None, nn.BatchNorm1d(8)), rows()))
    made = found("not_held", healthy, check(calls(lambda x: nn.BatchNorm1d(8)(x)), rows()))
    assert (listed.severity, listed.layers) == ("error", ("self:BatchNorm1d",))
    assert "stand in a list" in listed.sentence
    assert "made anew" in made.sentence
    assert "ModuleList" in listed.fix
    assert "nn.BatchNorm1d" in made.fix
    for same in (lambda x: nn.LayerNorm(8, elementwise_affine=False)(x), lambda x: F.layer_norm(x, (8,))):
        assert "not_held" in check(calls(same), rows()).healthy  # it has nothing to hold
    model = calls(None, nn.BatchNorm1d(8)).eval()
    assert model.held[0].training  # what the finding is about
    assert "not_held" in check(model, rows()).not_checked["batch_in_eval"]  # and no other remedy is named


def test_norm_of_the_first_forward_is_held_from_then_on():
    def late(net, x):
        net.call = net.call or nn.BatchNorm1d(8)
        return net.output(torch.relu(net.call(net.first(x))))

    model, healthy = calls(None), check(calls(nn.BatchNorm1d(8)), rows())
    model.run = late
    finding = found("not_held", healthy, check(model, rows()))
    assert (finding.severity, finding.layers) == ("warning", ("self:BatchNorm1d",))
    assert "in its first forward pass" in finding.sentence
    assert model.call is None
    model(rows()[0])
    assert "not_held" in check(model, rows()).healthy


def test_norms_that_nothing_holds_are_counted_one_by_one():
    first, *more = [nn.LayerNorm(8), nn.LayerNorm(8), nn.BatchNorm1d(8)]
    model = calls(None, lambda x: more[1](torch.relu(more[0](first(x)))), first, *more)
    result = check(model, rows())
    assert result["not_held"].number == 3
    assert "3 norms (LayerNorm, BatchNorm1d)" in result["not_held"].sentence
    assert "self:LayerNorm (LayerNorm) and 1 more" in "".join(result.norms)


def over_time(x):
    return F.instance_norm(x.unsqueeze(-1) * torch.rand(5)).mean(-1) + x


def normalized(dim):
    return lambda x: F.normalize(x, dim=dim)


def over_batch(x):
    return F.batch_norm(x, None, None, training=True)


OVER_CHANNELS = "each sample, over 8 channels (axis 1): 8 values"
# (function, network's input, its axes in words)
FUNCTIONS = {
    "layer_norm": (lambda x: F.layer_norm(x, (8,)), rows, OVER_CHANNELS),
    "rms_norm": (lambda x: F.rms_norm(x, (8,)), rows, OVER_CHANNELS),
    "batch_norm": (over_batch, rows, "each of 8 channels (axis 1), over 32"),
    "group_norm": (lambda x: F.group_norm(x, 2), rows, "2 groups of 4 channels (axis 1), over the channels of a g"),
    "instance_norm": (
        over_time, rows,
        "each sample and each of 8 channels (axis 1), over 5 positions (axis 2)",
    ),
    "normalize": (normalized(1), rows, OVER_CHANNELS),
    "normalize, rows, axis 0": (normalized(0), rows, "each of 8 channels (axis 1), over 32 samples: 32 values"),
    "normalize, images, axis 1": (
        normalized(1), images,
        "each sample and position (axes 0, 2, 3), over 8 channels (axis 1): 8 values",
    ),
    "normalize, images, axes 1 to 3": (
        normalized((1, 2, 3)), images,
        "each sample, over 8 channels (axis 1) and 36 positions (axes 2, 3): 288 values",
    ),
    "normalize, tokens, axis 1": (
        normalized(1), tokens,
        "each sample and each of 8 channels (axis 2), over 12 positions (axis 1): 12 values",
    ),
    "normalize, tokens, axis 2": (
        normalized(2), tokens,
        "each sample and position (axes 0, 1), over 8 channels (axis 2): 8 values",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FUNCTIONS)
def test_function_is_a_norm_with_its_axes_in_words(case):
    function, data, words = FUNCTIONS[case]
    name = case.partition(",")[0]
    first = {rows: nn.Linear(6, 8), images: nn.Conv2d(3, 8, 3), tokens: nn.Embedding(11, 8)}[data]
    result = check(nn.Sequential(first, Called(function)), data()[0])
    assert result.facts[0].startswith(f"1 F.{name}; ")
    (line,) = result.norms
    assert line.startswith(f"1:F.{name} (F.{name}): one statistic for ")
    assert words in line
    assert "float32 -> float32" in line


def test_samples_and_positions_that_may_stand_either_way_are_named_together():
    for first in (True, False):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=first)
        (line,) = check(layer, torch.randn(5, 4, 8)).norms
        assert "each sample and position (axes 0, 1), over 8 channels (axis 2)" in line


def test_function_is_judged_as_a_layer_is():
    x, y = rows()
    healthy = check(calls(FUNCTIONS["layer_norm"][0]), (x, y))
    tiny = found("eps", healthy, check(calls(lambda z: F.layer_norm(z * 1e-4, (8,))), (x, y)))
    assert tiny.layers == ("self:F.layer_norm",)
    assert check(calls(lambda z: F.group_norm(z, 4)), (x, y))["one_value"].number == 2
    stored = check(calls(lambda z: F.batch_norm(z, torch.zeros(8), torch.ones(8))), (x, y))
    found("batch_in_eval", stored, check(calls(over_batch), (x, y)))


class CohereNorm(nn.Module):
    """Named as a norm, and is none over any axis that could be told."""

    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-5

    def forward(self, x):
        return self.weight * x / (x.abs().amax(-1, keepdim=True) + x.abs().mean(-1, keepdim=True) + self.eps)


def test_norm_that_is_not_understood_is_said():
    result = check(around(CohereNorm()), rows())
    assert any(fact.startswith("1 CohereNorm is not understood: ") for fact in result.facts)
    assert "not understood" in result.norms[0]
    beside = check(around(nn.Sequential(CohereNorm(), nn.LayerNorm(8))), rows())
    assert "eps" in beside.healthy
    assert any("not understood" in fact for fact in beside.facts)


class GatedNorm(HandRMS):
    def forward(self, x, gate=None):
        return super().forward(x) if gate is None else super().forward(x * gate)


def test_norm_that_is_called_with_more_than_its_input_is_not_understood():
    gated = Own(
        lambda net, x: net.norm(net.linear(x), torch.full((32, 8), 1e-4)),
        linear=nn.Linear(6, 8), norm=GatedNorm(8, wide=True),
    )  # fmt: skip
    assert "eps" in check(around(GatedNorm(8, wide=True)), rows()).healthy
    result = check(gated, rows()[0])
    assert "1 GatedNorm is not understood: is called with more than its input" in result.facts
    assert "eps" in result.not_checked


class StepRMSNorm(nn.Module):
    """Over axis 1, whatever stands there: the channels of rows, the positions of tokens."""

    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-6

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(1, keepdim=True) + self.eps)


def test_class_that_computes_something_else_on_more_axes_is_told_by_its_output():
    def of_tokens(norm):
        return Own(
            lambda net, x: net.output(net.norm(net.first(net.table(x).cumsum(1)))),
            table=nn.Embedding(11, 8), first=HandRMS(8, wide=True), norm=norm, output=nn.Linear(8, 11),
        )  # fmt: skip

    data = tokens()
    assert "each sample, over 8 channels (axis 1)" in check(around(StepRMSNorm()), rows()).norms[0]
    result = check(of_tokens(StepRMSNorm()), data)
    assert "1 StepRMSNorm is not understood: computes something else here" in " ".join(result.facts)
    finding = found("sees_future", check(of_tokens(HandRMS(8, wide=True)), data), result)
    assert finding.layers == ("norm",)
    assert "by hand" in finding.fix


def test_instance_norm_of_rows_takes_samples_for_channels():
    x, y = rows()
    wrong = nn.Sequential(nn.Linear(6, 8), nn.InstanceNorm1d(32))
    finding = found("wrong_axis", check(around(nn.LayerNorm(8)), (x, y)), check(wrong, (x, y)))
    assert (finding.number, finding.severity) == (32, "warning")
    z = wrong[0](x)
    assert torch.allclose(wrong[1](z), F.layer_norm(z, (8,)), atol=1e-5)  # over the features of each sample
    assert "one_value" in check(wrong, (x, y)).healthy
    wrong = nn.Sequential(*wrong, nn.Linear(8, 16), nn.InstanceNorm1d(16))
    exec(check(wrong, (x, y))["wrong_axis"].fix, {"nn": nn, "model": wrong})
    assert "wrong_axis" in check(wrong, (x, y)).healthy
    assert torch.allclose(wrong[1](z), F.layer_norm(z, (8,)))


def test_statistic_for_each_position():
    def steps(norm, moved):
        def forward(net, x):
            x = net.linear(x)
            return net.norm(x.transpose(1, 2)).transpose(1, 2) if moved else net.norm(x)

        return Own(forward, linear=nn.Linear(6, 8), norm=norm)

    x = torch.randn(32, 12, 6)
    healthy = check(steps(nn.BatchNorm1d(8), True), x)
    finding = found("wrong_axis", healthy, check(steps(nn.BatchNorm1d(12), False), x))
    assert (finding.number, finding.severity) == (12, "note")
    assert "each of 12 channels (axis 1), over 32 samples and 8 positions" in finding.sentence
    assert "its 8 channels the last axis" in finding.sentence


class LeavesRMSNorm(HandRMS):
    def forward(self, x):
        return super().forward(x).float()


def test_gain_of_another_type():
    right, wrong = (nn.Sequential(nn.Linear(6, 8), WideRMSNorm(8, wide=True)).bfloat16() for _ in range(2))
    wrong[1].float()
    assert wrong(rows()[0].bfloat16()).dtype == torch.float32
    result = check(wrong, rows())
    finding = found("types", check(right, rows()), result)
    assert "gets bfloat16 and gives float32" in finding.sentence
    assert "bfloat16 -> float32, gain float32" in result.norms[0]
    fails = nn.Sequential(wrong, nn.Linear(8, 3).bfloat16())
    assert check(fails, rows())["types"].layers == ("0.1",)
    assert "types" in check(fails, rows(), precision="bf16-mixed").healthy
    leaves = nn.Sequential(nn.Linear(6, 8), LeavesRMSNorm(8, wide=True)).bfloat16()
    for net in (leaves, nn.Sequential(*leaves, Called(torch.Tensor.bfloat16), WideRMSNorm(8, wide=True))):
        assert "forward of LeavesRMSNorm" in check(net, rows())["types"].fix  # the first one


def test_bias_that_a_norm_takes_away():
    def cnn(bias, norm):
        return nn.Sequential(nn.Conv2d(3, 8, 3, bias=bias), norm, nn.ReLU(), nn.Flatten(), nn.Linear(288, 3))

    right, wrong = cnn(False, nn.BatchNorm2d(8)), cnn(True, nn.BatchNorm2d(8))
    x, y = images()
    large = check(wrong, (x, y), loss=lambda *both: 100 * F.cross_entropy(*both))
    finding = found("bias_cancelled", check(right, images()), large)
    F.cross_entropy(before := wrong(x), y).backward()
    share = wrong[0].bias.grad.norm() / wrong[0].weight.grad.norm()
    assert share / 10 < finding.number < 10 * share  # of rounding
    with torch.no_grad():
        wrong[0].bias += 3
    assert torch.allclose(wrong(x), before, atol=1e-4)
    assert finding.layers == ("0",)
    assert "bias_cancelled" in check(cnn(True, nn.GroupNorm(2, 8)), images()).healthy


@pytest.mark.parametrize(("gain", "shift"), [(0.0, -20.0), (0.1, -5.0), (1.0, 12.0)])
def test_output_that_gain_and_shift_fix(gain, shift):
    right, wrong = (around(nn.Sequential(nn.BatchNorm1d(8), nn.ReLU())) for _ in range(2))
    norm = wrong[1][0]
    nn.init.constant_(norm.weight[:2].data, gain)
    nn.init.constant_(norm.bias[:2].data, shift)
    finding = found("fixed_output", check(right, rows()), check(wrong, rows()))
    assert (finding.number, finding.severity) == (0.25, "note")


def test_gain_that_starts_at_zero_and_learns_is_no_fault():
    residual = Own(lambda net, x: x + net.norm(net.linear(x)), linear=nn.Linear(6, 6), norm=nn.LayerNorm(6))
    nn.init.zeros_(residual.norm.weight)
    assert "fixed_output" in check(nn.Sequential(residual, nn.Linear(6, 3)), rows()).healthy


def test_norm_of_a_norm():
    def twice(*between):
        return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), *between, nn.BatchNorm1d(8), nn.Linear(8, 3))

    written = check(twice(nn.ReLU(inplace=True)), rows())  # into the same tensor
    assert "norm_of_norm" in written.healthy
    finding = found("norm_of_norm", check(twice(nn.ReLU()), rows()), check(twice(), rows()))
    assert (finding.layers, finding.number) == (("2",), 1)


def pooled(norm, zero=False):
    """A mean over pixels behind the norm, and a head that may start at 0."""
    net = Own(
        lambda net, x: net.output(net.norm(net.conv(x)).mean((2, 3))),
        conv=nn.Conv2d(3, 8, 3), norm=norm, output=nn.Linear(8, 3),
    )  # fmt: skip
    if zero:
        nn.init.zeros_(net.output.weight)
    return net


def test_output_that_ignores_its_input():
    x, y = images()
    wrong = pooled(nn.InstanceNorm2d(8, affine=True))
    finding = found("ignores_input", check(pooled(nn.BatchNorm2d(8)), (x, y)), check(wrong, (x, y)))
    assert finding.severity == "error"
    assert torch.allclose(wrong(x), wrong(torch.randn_like(x)), atol=1e-5)
    assert finding.layers == ("norm",)
    assert "ignores_input" not in check(pooled(nn.BatchNorm2d(8), zero=True), (x, y))
    for scale in (1e-4, 1e4):  # of the loss, which says nothing of what the output depends on
        assert "ignores_input" in check(wrong, (x, y), loss=lambda *both, k=scale: k * F.cross_entropy(*both))
    exec(finding.fix, {"model": wrong, "normexp": normexp})
    assert "ignores_input" in check(wrong, (x, y)).healthy
