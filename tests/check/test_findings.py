"""Each finding on a network that has the fault and on one that is nearly alike and healthy, with its number against a
slow computation of its own."""

import copy
import math
from types import SimpleNamespace

import pytest
import torch
from scipy import stats
from small_networks import HandRMS, Own, around, cnn, found, images, mlp, rows, train
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import normexp.norms
from normexp.check.findings.statistics import is_gap
from normexp.check.run import check


def mean_gap(model, batches):
    """Mean loss of batches in eval mode, minus that in training mode."""
    total = 0.0
    with torch.no_grad():
        for x, y in batches:
            batch = F.cross_entropy(copy.deepcopy(model).train()(x), y)
            total += float(F.cross_entropy(copy.deepcopy(model).eval()(x), y) - batch)
    return total / len(batches)


def test_mode_gap():
    batches = [(x, (x[:, 0] > 0) + (x[:, 1] > 0).long()) for x in (torch.randn(64, 6), torch.randn(64, 6))]
    right = train(mlp(), batches, 150)
    wrong = copy.deepcopy(right)
    for layer in (wrong[1], wrong[4]):
        layer.running_mean += 2
    finding = found("mode_gap", check(right, batches, samples=64), check(wrong, batches, samples=64))
    assert finding.number == pytest.approx(mean_gap(wrong, batches), rel=1e-5)
    assert "update_bn" in finding.fix


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 9])
def test_gap_is_above_its_limit_by_a_t_test_of_three_batches_and_more(batches):
    generator, limit = torch.Generator().manual_seed(batches), SimpleNamespace(gap=0.1, floor=0.01)
    answers = []
    for spread in (0.01, 0.1, 0.5) * 8:
        gaps = 0.21 + spread * (torch.randn(batches, generator=generator) + 0.5)
        rows = [(None, 2 + gap, 2.0) for gap in gaps.tolist()]
        p = stats.ttest_1samp(gaps.double(), 0.21, alternative="greater").pvalue if batches > 1 else None
        plain = gaps.mean().item() > 0.21
        assert is_gap(rows, limit) == plain
        answers.append(is_gap(rows, limit, chance=True))
        assert answers[-1] == (p < 0.1 if batches > 2 else plain)
    assert 0 < sum(answers) < len(answers)
    assert is_gap([*rows, (None, math.nan, 2.0)], limit)


def test_mode_gap_that_new_statistics_do_not_close():
    """Batches of two classes apart: no statistic of both is that of either."""
    x = torch.randn(64, 6)
    y = (x[:, 0] > 0).long()
    shifted = [(x, y), (x + 12 * (x[:, :1] > 0), y)]
    alike, apart = train(mlp(), [shifted[0]] * 2, 200), train(mlp(), shifted, 200)
    healthy = check(alike, [shifted[0], shifted[0]], samples=64)
    finding = found("mode_gap", healthy, check(apart, shifted, samples=64))
    gap, anew = mean_gap(apart, shifted), 0.0
    for judged, other in (shifted, shifted[::-1]):
        again = copy.deepcopy(apart)
        torch.optim.swa_utils.update_bn([other[0]], again)
        with torch.no_grad():
            anew += float(F.cross_entropy(again.eval()(judged[0]), judged[1]))
            anew -= float(F.cross_entropy(copy.deepcopy(apart).train()(judged[0]), judged[1]))
    assert finding.number == pytest.approx(gap, rel=1e-4)
    assert anew / 2 > 0.5 * gap
    assert 'swap(model, "layernorm")' in finding.fix  # of 8 channels


def test_statistics_cold():
    data = TensorDataset(*rows(64))
    few, many = DataLoader(data, 32), DataLoader(data, 2)
    finding = found("statistics_cold", check(mlp(), many), check(mlp(), few))
    left = 1.0
    for _ in few:
        left *= 0.9
    assert finding.number == pytest.approx(left)


def test_small_batch():
    finding = found("small_batch", check(mlp(), rows(32)), check(mlp(), rows(4)))
    assert (finding.number, finding.severity) == (4, "warning")
    assert finding.sentence.endswith("has 4 values, in 1).")
    twice = check(mlp(), rows(4), accumulate=2)["small_batch"]
    assert twice.sentence.endswith("in 1), also in a step of 8 samples over 2 batches.")
    assert check(mlp().eval(), rows(4))["small_batch"].number == 4  # as it will train
    assert check(mlp(nn.LayerNorm(8)), rows(4)).ok


def in_parts(net, size):
    """Calls its network with a few samples at a time."""
    return Own(lambda self, x: torch.cat([self.net(part) for part in x.split(size)]), net=net)


@pytest.mark.parametrize(("size", "samples"), [(1, 32), (4, 32), (4, 30), (16, 64)])
def test_norm_that_gets_a_part_of_the_batch_is_judged_by_that(size, samples):
    """As a backbone that takes images one by one, or BatchNorm by chunks."""
    least = min(len(part) for part in torch.empty(samples).split(size))
    result = check(in_parts(cnn(), size), images(samples), samples=32)
    assert ("small_batch" in result) == (least < 16), str(result)
    if least < 16:
        assert result["small_batch"].number == least
        said = f"over {least} sample{'s' * (least > 1)} at a time (the smallest statistic has {36 * least} values"
        assert said in result["small_batch"].sentence
        assert "at a call" in result["small_batch"].fix
    assert "1 samples" not in "".join(result.norms)
    if size > 1:
        result = check(in_parts(around(nn.BatchNorm1d(8)), size), rows(samples), samples=32)
        assert ("one_value" in result) == (least <= 2)
        if least <= 2:
            assert result["one_value"].number == least
            assert "at a call" in result["one_value"].fix


def test_time_first_counts_all_samples():
    """BatchNorm over (T, N, C), with fewer positions than samples and a batch that is cut."""
    net = Own(
        lambda net, x: net.norm(net.linear(x).transpose(0, 1)).transpose(0, 1),
        linear=nn.Linear(6, 8), norm=normexp.norms.BatchNorm(8, channel_dim=-1),
    )  # fmt: skip
    finding = found("small_batch", check(net, torch.randn(64, 3, 6)), check(net, torch.randn(4, 3, 6)))
    assert finding.number == 4
    assert "12 values" in finding.sentence


def test_accumulation_adds_gradients_and_not_statistics():
    finding = found("small_batch", check(mlp(), rows(32)), check(mlp(), rows(32), accumulate=4))
    start = nn.BatchNorm1d(1)
    for _ in range(4):
        start(torch.tensor([[-1e-3], [1e-3]]))  # a variance of 0 but for the start
    assert finding.number == pytest.approx(1 - float(start.running_var), abs=1e-5)
    assert finding.fix.startswith(f"for m in [model[1], model[4]]: m.momentum = {1 - 0.9**0.25:.3g}")


def test_devices_share_statistics_only_with_syncbatchnorm():
    synced = nn.SyncBatchNorm.convert_sync_batchnorm(mlp())
    finding = found("small_batch", check(synced, rows(8), devices=4), check(mlp(), rows(8), devices=4))
    assert (finding.number, finding.severity) == (8, "warning")
    assert "SyncBatchNorm" in finding.fix


@pytest.mark.parametrize("momentum", [0.1, None])
def test_frozen_gain_lets_the_buffers_move(momentum):
    frozen, data = cnn(), images()
    frozen[1].requires_grad_(False)
    frozen[1].momentum, frozen[1].eps = momentum, 0.5  # None: the plain average of the batches
    frozen(3 * images()[0] + 1)
    resting = copy.deepcopy(frozen)
    resting[1].track_running_stats = False
    resting[1].running_mean = resting[1].running_var = None
    finding = found("frozen_thaws", check(cnn(), data), check(frozen, data))
    before = frozen[1].running_mean.clone()
    copied = copy.deepcopy(frozen)
    copied(data[0])
    slow = ((copied[1].running_mean - before) / (frozen[1].running_var + 0.5).sqrt()).square().mean().sqrt()
    assert finding.number == pytest.approx(float(slow), rel=1e-4)
    assert "frozen_thaws" in check(resting, data).healthy
    assert "frozen_thaws" in check(mlp(nn.BatchNorm1d(8, affine=False)), rows()).healthy  # nothing to freeze


def test_last_batch_of_one():
    odd, even = (DataLoader(TensorDataset(*rows(n)), 8) for n in (33, 32))
    assert found("last_batch_of_one", check(mlp(), even), check(mlp(), odd)).number == len(list(odd)[-1][0])
    model, dropped = mlp(), DataLoader(TensorDataset(*rows(33)), 8, drop_last=True)
    assert "last_batch_of_one" in check(model, dropped).healthy
    pixels = DataLoader(TensorDataset(*images(17)), 8)  # 36 values of the last image
    assert "last_batch_of_one" in check(cnn(), pixels).healthy


def called_dropout(p):
    return Own(lambda net, x: F.dropout(x, p, net.training))


@pytest.mark.parametrize("drop", [nn.Dropout, called_dropout])
def test_dropout_before_batchnorm(drop):
    def build(p):
        return nn.Sequential(nn.Linear(6, 64), nn.ReLU(), drop(p), nn.Linear(64, 8), nn.BatchNorm1d(8))

    data = rows(256)
    healthy = check(build(0.01), data, samples=256)
    finding = found("dropout_before_batchnorm", healthy, check(model := build(0.7), data, samples=256))
    x = model[1](model[0](data[0])).detach().double()
    w, b = model[3].weight.detach().double(), model[3].bias.detach().double()
    passes = [(x * (torch.rand_like(x) > 0.7) / 0.3) @ w.T + b for _ in range(200)]
    ratio = (torch.stack(passes).var((0, 1)) / (x @ w.T + b).var(0)).median()
    assert finding.number == pytest.approx(float(ratio), rel=0.2)


def test_momentum_of_another_library():
    """Of 0 it never moves, as two networks that were ported from TensorFlow had it (pretrained-models.pytorch 5)."""
    swapped = mlp(nn.BatchNorm1d(8, momentum=0.99))
    finding = found("momentum", check(mlp(), rows()), check(swapped, rows()))
    layer = nn.BatchNorm1d(1, momentum=0.99)
    layer(torch.tensor([[-1e-4], [1e-4]]))
    assert finding.number == pytest.approx(float(layer.running_var), abs=1e-4)
    assert "never move" in check(mlp(nn.BatchNorm1d(8, momentum=0.0)), rows())["momentum"].sentence


def test_pass_fails_with_the_message_that_people_search_for():
    finding = found("pass_fails", check(mlp(), rows(2)), check(mlp(), rows(1)))
    assert "Expected more than 1 value per channel when training" in finding.sentence
    assert finding.layers == ("1",)
    assert finding.number == 1
    with pytest.raises(ValueError, match="Expected more than 1 value"):
        mlp()(rows(1)[0])


def test_not_finite():
    model, data = mlp(), rows()
    broken = copy.deepcopy(model)
    broken[4].running_var[0] = math.nan
    assert found("not_finite", check(model, data), check(broken, data)).layers == ("4",)
    wrong = torch.where(torch.arange(32)[:, None] == 3, math.inf, data[0])  # one sample
    finding = found("not_finite", check(model, data), check(model, (wrong, data[1])))
    outputs = copy.deepcopy(model)[:4](wrong), copy.deepcopy(model)[:1](wrong)
    assert finding.number == sum(not bool(x.isfinite().all()) for x in outputs)
    assert "The batch itself" in finding.sentence
    large = copy.deepcopy(model)
    large[0].weight.data.fill_(1e38)
    sentence = found("not_finite", check(model, data), check(large, data)).sentence
    assert "1 of 2 norms get values" in sentence or "2 of 2 norms get values" in sentence


def test_one_value():
    healthy, model = (nn.Sequential(nn.Linear(6, 8), nn.GroupNorm(groups, 8)) for groups in (2, 8))
    finding = found("one_value", check(healthy, rows()), check(model, rows()))
    assert finding.number == 1
    assert float(model(rows()[0]).detach().std()) < 1e-4


def test_two_values_become_two_signs():
    def grouped(width):
        return Own(
            lambda net, x: net.norm(net.linear(x).unflatten(1, (-1, width))).flatten(1),
            linear=nn.Linear(6, 8), norm=nn.LayerNorm(width, elementwise_affine=False),
        )  # fmt: skip

    data = rows()
    finding = found("one_value", check(grouped(4), data), check(model := grouped(2), data))
    assert (finding.number, finding.severity) == (2, "warning")
    sizes = model(data[0]).detach().abs()
    assert float((sizes - 1).abs().median()) < 1e-3  # two signs, but for eps where both values agree
    assert float((grouped(4)(data[0]).detach().abs() - 1).abs().median()) > 0.1
    for values in (model.linear.weight.data, model.linear.bias.data):
        values[1::2] = values[::2]
    assert "constant_channels" in check(model, data).healthy  # one_value says what is wrong


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_eps(norm):
    def build(scale):
        model = mlp(norm(8, eps=1e-5))
        model[0].weight.data *= scale
        return model

    data = rows()
    finding = found("eps", check(build(1.0), data), check(model := build(1e-3), data))
    z = model[0](data[0]).detach().double()
    spread = z.square().mean(1) - (z.mean(1).square() if norm is nn.LayerNorm else 0)
    share = (1e-5 / (spread + 1e-5)).median()
    assert finding.number == pytest.approx(float(share), rel=1e-4)
    size = float((1 - share).sqrt())
    seen = model[1](z.float()).detach().square().mean(1).sqrt().median()
    assert seen.item() == pytest.approx(size, rel=0.05)
    assert f"{size:.2g} of the size" in finding.sentence


def test_eps_counts_less_before_running_statistics_have_seen_a_batch():
    model, (x, y) = mlp(nn.BatchNorm1d(8, eps=10.0)), rows()
    assert check(model, (x, y))["eps"].severity == "note"
    model(x)
    assert check(model, (x, y))["eps"].severity == "warning"


@pytest.mark.parametrize("precision", ["16-true", "16-mixed"])
def test_overflow_of_a_norm_by_hand(precision):
    x, y = rows()
    wide, narrow = (nn.Sequential(HandRMS(6, wide=w), nn.Linear(6, 3)) for w in (True, False))
    healthy = check(wide, (300 * x, y), precision=precision)
    finding = found("overflow", healthy, check(narrow, (300 * x, y), precision=precision))
    half = (300 * x).half()
    gone = ~torch.isfinite((half * half).mean(-1))  # rsqrt of inf is 0: the whole row vanishes
    assert finding.number == pytest.approx(float(gone.float().mean()) * 32 / 33)  # beside a row of zeros
    assert finding.fix.startswith("in the forward of HandRMSNorm: ")
    assert "overflow" in check(narrow, (300 * x, y), precision="bf16-mixed").healthy


def test_eps_that_rounds_to_zero_in_half_precision():
    x, y = rows()
    small, large = (nn.Sequential(HandRMS(6, wide=False, eps=eps), nn.Linear(6, 3)) for eps in (1e-8, 1e-6))
    healthy = check(large, (x, y), precision="16-true")
    finding = found("overflow", healthy, check(small, (x, y), precision="16-true"))
    assert float(torch.tensor(1e-8).half()) == 0
    assert finding.number == pytest.approx(1 / 33)  # the row of zeros beside the 32 samples


@pytest.mark.parametrize(("share", "said"), [(0.01, "gives 1% of"), (0.009, "gives less than 1% of")])
def test_share_of_overflow_is_a_number_from_a_hundredth_on(monkeypatch, share, said):
    monkeypatch.setattr("normexp.check.findings.values.lost_in", lambda *_: share)
    model = nn.Sequential(HandRMS(6, wide=True), nn.Linear(6, 3))
    assert said in check(model, rows(), precision="16-true")["overflow"].sentence


def test_overflow_margin():
    x, y = rows()
    model = mlp(nn.LayerNorm(8))
    healthy = check(model, (x, y), precision="16-mixed")
    finding = found("overflow", healthy, check(model, (30000 * x, y), precision="16-mixed"))
    largest = model[0](30000 * x).detach().abs().max()
    assert finding.number == pytest.approx(65504 / float(largest), rel=1e-4)


def test_constant_channels():
    x, y = images()
    model = cnn()
    dead = copy.deepcopy(model)
    dead[0].weight.data[:3] = 0
    dead[0].bias = nn.Parameter(torch.ones(8))
    finding = found("constant_channels", check(model, (x, y)), check(dead, (x, y)))
    flat = [bool(dead[0](x)[:, channel].unique().numel() == 1) for channel in range(8)]
    assert finding.number == pytest.approx(sum(flat) / 8)


def test_subclass_that_turns_its_input_is_not_judged_by_the_last_axis():
    class Turns(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.movedim(1, -1)).movedim(-1, 1) if x.dim() == 4 else super().forward(x)

    model = nn.Sequential(nn.Conv2d(3, 16, 7), Turns(16), nn.Flatten(), nn.Linear(64, 3))
    result = check(model, images())
    assert "one_value" not in result, str(result)
    assert any("Turns" in fact and "not understood" in fact for fact in result.facts), result.facts
