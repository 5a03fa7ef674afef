"""How norms stand in a network: each fault beside a healthy twin, with its number a second way."""

import pytest
import torch
from small_networks import Called, HandRMS, found, images, rows
from torch import nn
from torch.nn import functional as F

import normexp
from normexp.check.run import check


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Calls(nn.Module):
    """A linear map, a norm in any form, and a linear map."""

    def __init__(self, norm, held=()):
        super().__init__()
        self.first, self.call, self.output = nn.Linear(6, 8), norm, nn.Linear(8, 3)
        self.held = held

    def forward(self, x):
        norm = self.held[0] if self.held else self.call
        return self.output(torch.relu(norm(self.first(x))))


def test_norm_that_nothing_holds():
    healthy = check(Calls(nn.BatchNorm1d(8)), rows())
    listed = found("not_held", healthy, check(Calls(nn.Identity(), [nn.BatchNorm1d(8)]), rows()))
    made = found("not_held", healthy, check(Calls(lambda x: nn.BatchNorm1d(8)(x)), rows()))
    assert (listed.severity, listed.layers) == ("error", ("self:BatchNorm1d",))
    assert "stand in a list" in listed.sentence
    assert "made anew" in made.sentence
    assert "ModuleList" in listed.fix
    assert "nn.BatchNorm1d" in made.fix
    for same in (lambda x: nn.LayerNorm(8, elementwise_affine=False)(x), lambda x: F.layer_norm(x, (8,))):
        assert "not_held" in check(Calls(same), rows()).healthy  # it has nothing to hold
    model = Calls(nn.Identity(), [nn.BatchNorm1d(8)]).eval()
    assert model.held[0].training  # what the finding is about
    assert "not_held" in check(model, rows()).not_checked["batch_in_eval"]  # and no other remedy is named


class Late(Calls):
    """Makes its norm where it is first called."""

    def forward(self, x):
        self.call = self.call or nn.BatchNorm1d(8)
        return super().forward(x)


def test_norm_of_the_first_forward_is_held_from_then_on():
    model, healthy = Late(None), check(Calls(nn.BatchNorm1d(8)), rows())
    finding = found("not_held", healthy, check(model, rows()))
    assert (finding.severity, finding.layers) == ("warning", ("self:BatchNorm1d",))
    assert "in its first forward pass" in finding.sentence
    assert model.call is None
    model(rows()[0])
    assert "not_held" in check(model, rows()).healthy


def test_norms_that_nothing_holds_are_counted_one_by_one():
    first, *more = [nn.LayerNorm(8), nn.LayerNorm(8), nn.BatchNorm1d(8)]
    model = Calls(nn.Identity(), [lambda x: more[1](nn.functional.relu(more[0](first(x)))), first, *more])
    finding = check(model, rows())["not_held"]
    assert finding.number == 3
    assert "3 norms (LayerNorm, BatchNorm1d)" in finding.sentence
    assert "self:LayerNorm (LayerNorm) and 1 more" in "".join(check(model, rows()).norms)


def over_time(x):
    return F.instance_norm(x.unsqueeze(-1) * torch.rand(5)).mean(-1) + x


FUNCTIONS = {
    "layer_norm": (lambda x: F.layer_norm(x, (8,)), "each sample, over 8 channels (axis 1): 8 values"),
    "rms_norm": (lambda x: F.rms_norm(x, (8,)), "each sample, over 8 channels (axis 1): 8 values"),
    "batch_norm": (
        lambda x: F.batch_norm(x, None, None, training=True),
        "each of 8 channels (axis 1), over 32",
    ),
    "group_norm": (
        lambda x: F.group_norm(x, 2),
        "2 groups of 4 channels (axis 1), over the channels of a group",
    ),
    "instance_norm": (over_time, "each sample and each of 8 channels (axis 1), over 5 positions (axis 2)"),
    "normalize": (lambda x: F.normalize(x), "each sample, over 8 channels (axis 1): 8 values"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_a_norm_with_its_axes_in_words(name):
    function, words = FUNCTIONS[name]
    result = check(Calls(function), rows())
    assert result.facts[0].startswith(f"1 F.{name}; 32 samples")
    assert result.norms[0].startswith(f"self:F.{name} (F.{name}): one statistic for ")
    assert words in result.norms[0]
    assert "float32 -> float32" in result.norms[0]


def test_function_is_judged_as_a_layer_is():
    x, y = rows()
    tiny = found(
        "eps",
        check(Calls(FUNCTIONS["layer_norm"][0]), (x, y)),
        check(Calls(lambda z: F.layer_norm(z * 1e-4, (8,))), (x, y)),
    )
    assert tiny.layers == ("self:F.layer_norm",)
    pairs = check(Calls(lambda z: F.group_norm(z, 4)), (x, y))["one_value"]
    assert pairs.number == 2
    alone = check(Calls(FUNCTIONS["batch_norm"][0]), (x, y))
    assert "batch_in_eval" in alone
    assert (
        "batch_in_eval"
        in check(Calls(lambda z: F.batch_norm(z, torch.zeros(8), torch.ones(8))), (x, y)).healthy
    )


class CohereNorm(nn.Module):
    """Named as a norm, and is none over any axis that could be told."""

    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-5

    def forward(self, x):
        return self.weight * x / (x.abs().amax(-1, keepdim=True) + x.abs().mean(-1, keepdim=True) + self.eps)


def test_norm_that_is_not_understood_is_said():
    result = check(nn.Sequential(nn.Linear(6, 8), CohereNorm(), nn.Linear(8, 3)), rows())
    assert any(fact.startswith("1 CohereNorm is not understood: ") for fact in result.facts)
    assert "not understood" in result.norms[0]
    beside = check(nn.Sequential(nn.Linear(6, 8), CohereNorm(), nn.LayerNorm(8), nn.Linear(8, 3)), rows())
    assert "eps" in beside.healthy
    assert any("not understood" in fact for fact in beside.facts)


class Gated(HandRMS):
    def forward(self, x, gate=None):
        return super().forward(x) if gate is None else super().forward(x * gate)


def test_norm_that_is_called_with_more_than_its_input_is_not_understood():
    class Net(nn.Module):
        def __init__(self, gated):
            super().__init__()
            self.linear, self.norm, self.output = nn.Linear(6, 8), Gated(8, wide=True), nn.Linear(8, 3)
            self.gated = gated

        def forward(self, x):
            x = self.linear(x)
            return self.output(self.norm(x, torch.full_like(x, 1e-4)) if self.gated else self.norm(x))

    assert "eps" in check(Net(False), rows()).healthy
    result = check(Net(True), rows())
    assert "1 Gated is not understood: is called with more than its input" in result.facts
    assert "eps" in result.not_checked


class OverSteps(nn.Module):
    """Over axis 1, whatever stands there: the channels of rows, the positions of tokens."""

    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-6

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.square().mean(1, keepdim=True) + self.eps)


OverSteps.__name__ = "StepRMSNorm"


def test_class_that_computes_something_else_on_more_axes_is_told_by_its_output():
    tokens = torch.randint(1, 11, (16, 12))

    class Tokens(nn.Module):
        def __init__(self, norm):
            super().__init__()
            self.table, self.first, self.norm = nn.Embedding(11, 8), HandRMS(8, wide=True), norm
            self.output = nn.Linear(8, 11)

        def forward(self, x):
            return self.output(self.norm(self.first(self.table(x).cumsum(1))))

    rows_too = nn.Sequential(nn.Linear(6, 8), OverSteps(), nn.Linear(8, 3))
    assert "each sample, over 8 channels (axis 1)" in check(rows_too, rows()).norms[0]
    result = check(Tokens(OverSteps()), (tokens, tokens))
    assert "1 StepRMSNorm is not understood: computes something else here" in " ".join(result.facts)
    assert result["sees_future"].layers == ("norm",)
    assert "by hand" in result["sees_future"].fix
    assert "sees_future" in check(Tokens(HandRMS(8, wide=True)), (tokens, tokens)).healthy


def test_instance_norm_of_rows_takes_samples_for_channels():
    x, y = rows()
    wrong = nn.Sequential(nn.Linear(6, 8), nn.InstanceNorm1d(32), nn.Linear(8, 3))
    finding = found("wrong_axis", check(Calls(nn.LayerNorm(8)), (x, y)), check(wrong, (x, y)))
    assert (finding.number, finding.severity) == (32, "warning")
    z = wrong[0](x)
    assert torch.allclose(wrong[1](z), F.layer_norm(z, (8,)), atol=1e-5)  # over the features of each sample
    assert "one_value" in check(wrong, (x, y)).healthy
    wrong = nn.Sequential(*wrong[:2], nn.Linear(8, 16), nn.InstanceNorm1d(16), nn.Linear(16, 3))
    exec(check(wrong, (x, y))["wrong_axis"].fix, {"nn": nn, "model": wrong})
    assert "wrong_axis" in check(wrong, (x, y)).healthy
    assert torch.allclose(wrong[1](z), F.layer_norm(z, (8,)))


class Steps(nn.Module):
    def __init__(self, norm, moved):
        super().__init__()
        self.linear, self.norm, self.moved, self.output = nn.Linear(6, 8), norm, moved, nn.Linear(8, 3)

    def forward(self, x):
        x = self.linear(x)
        return self.output(self.norm(x.transpose(1, 2)).transpose(1, 2) if self.moved else self.norm(x))


def test_statistic_for_each_position():
    x = torch.randn(32, 12, 6)
    healthy = check(Steps(nn.BatchNorm1d(8), True), x)
    finding = found("wrong_axis", healthy, check(Steps(nn.BatchNorm1d(12), False), x))
    assert (finding.number, finding.severity) == (12, "note")
    assert "each of 12 channels (axis 1), over 32 samples and 8 positions" in finding.sentence
    assert "its 8 channels the last axis" in finding.sentence


def test_gain_of_another_type():
    class Wide(HandRMS):
        def forward(self, x):
            return self.weight * super().forward(x)

    Wide.__name__ = "WideRMSNorm"
    right, wrong = (nn.Sequential(nn.Linear(6, 8), Wide(8, wide=True)).bfloat16() for _ in range(2))
    wrong[1].float()
    assert wrong(rows()[0].bfloat16()).dtype == torch.float32
    finding = found("types", check(right, rows()), check(wrong, rows()))
    assert "gets bfloat16 and gives float32" in finding.sentence
    assert "bfloat16 -> float32, gain float32" in check(wrong, rows()).norms[0]
    fails = nn.Sequential(wrong, nn.Linear(8, 3).bfloat16())
    assert check(fails, rows())["types"].layers == ("0.1",)
    assert "types" in check(fails, rows(), precision="bf16-mixed").healthy
    exec(finding.fix, {"model": wrong, "torch": torch})
    assert "types" in check(wrong, rows()).healthy

    class Leaves(HandRMS):
        def forward(self, x):
            return super().forward(x).float()

    Leaves.__name__ = "LeavesRMSNorm"
    both = nn.Sequential(nn.Linear(6, 8), Leaves(8, wide=True)).bfloat16(), Wide(8, wide=True)
    for net in (both[0], nn.Sequential(*both[0], Called(torch.Tensor.bfloat16), both[1])):
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
    exec(finding.fix, {"model": wrong})
    assert "bias_cancelled" in check(wrong, images()).healthy


@pytest.mark.parametrize(("gain", "shift"), [(0.0, -20.0), (0.1, -5.0), (1.0, 12.0)])
def test_output_that_gain_and_shift_fix(gain, shift):
    def layers():
        return [nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)]

    right, wrong = nn.Sequential(*layers()), nn.Sequential(*layers())
    nn.init.constant_(wrong[1].weight[:2].data, gain)
    nn.init.constant_(wrong[1].bias[:2].data, shift)
    finding = found("fixed_output", check(right, rows()), check(wrong, rows()))
    assert (finding.number, finding.severity) == (0.25, "note")
    exec(finding.fix, {"model": wrong})
    assert "fixed_output" in check(wrong, rows()).healthy


def test_gain_that_starts_at_zero_and_learns_is_no_fault():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm, self.output = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(6, 3)
            nn.init.zeros_(self.norm.weight)

        def forward(self, x):
            return self.output(x + self.norm(self.linear(x)))

    assert "fixed_output" in check(Residual(), rows()).healthy


def test_norm_of_a_norm():
    def twice(*between):
        return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), *between, nn.BatchNorm1d(8), nn.Linear(8, 3))

    assert (
        "norm_of_norm" in check(twice(nn.ReLU(inplace=True)), rows()).healthy
    )  # the same tensor, written into
    finding = found("norm_of_norm", check(twice(nn.ReLU()), rows()), check(wrong := twice(), rows()))
    assert (finding.layers, finding.number) == (("2",), 1)
    exec(finding.fix, {"model": wrong, "nn": nn, "result": check(wrong, rows())})
    assert "norm_of_norm" in check(wrong, rows()).healthy


class Pooled(nn.Module):
    def __init__(self, norm, zero=False):
        super().__init__()
        self.conv, self.norm, self.output = nn.Conv2d(3, 8, 3), norm, nn.Linear(8, 3)
        if zero:
            nn.init.zeros_(self.output.weight)

    def forward(self, x):
        return self.output(self.norm(self.conv(x)).mean((2, 3)))


def test_output_that_ignores_its_input():
    x, y = images()
    wrong = Pooled(nn.InstanceNorm2d(8, affine=True))
    finding = found("ignores_input", check(Pooled(nn.BatchNorm2d(8)), (x, y)), check(wrong, (x, y)))
    assert finding.severity == "error"
    assert torch.allclose(wrong(x), wrong(torch.randn_like(x)), atol=1e-5)
    assert finding.layers == ("norm",)
    assert "ignores_input" not in check(
        Pooled(nn.BatchNorm2d(8), zero=True), (x, y)
    )  # a head that starts at 0
    assert (
        "after some training"
        in check(Pooled(nn.InstanceNorm2d(8), True), (x, y)).not_checked["ignores_input"]
    )
    for scale in (1e-4, 1e4):  # of the loss, which says nothing of what the output depends on
        assert "ignores_input" in check(wrong, (x, y), loss=lambda *both, k=scale: k * F.cross_entropy(*both))
    exec(finding.fix, {"model": wrong, "normexp": normexp})
    assert "ignores_input" in check(wrong, (x, y)).healthy
