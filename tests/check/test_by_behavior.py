"""What a layer is known by: what it does, whatever its names. Where that says nothing, a rule says not checked."""

import contextlib
import re
from collections import Counter

import pytest
import torch
from small_networks import Called, HandRMS, Own, found, mlp, rows, train
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from normexp.check.finding import declared
from normexp.check.run import check
from normexp.monitors import Activations
from normexp.norms.layers import recognize, running


class Hand(nn.Module):
    """BatchNorm by hand, with names, shapes and a share of a new batch of its own."""

    def __init__(self, names=("mu", "var_"), shape=(8,), share=0.1, plain=False, root=False):
        super().__init__()
        self.scale, self.offset = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))
        self.names, self.share, self.root = names, share, root
        for name, value in zip(names, (torch.zeros(shape), torch.ones(shape)), strict=True):
            setattr(self, name, value) if plain else self.register_buffer(name, value)

    def forward(self, x):
        stored = [getattr(self, name).view(-1) for name in self.names]
        if self.training:
            now = x.mean(0), (x.std(0) if self.root else x.var(0))
            for old, new in zip(stored, now, strict=True):
                old.lerp_(new.detach(), self.share)
            mean, var = x.mean(0), x.var(0, correction=0)
        else:
            mean, var = stored[0], stored[1].square() if self.root else stored[1]
        return (x - mean) / (var + 1e-5).sqrt() * self.scale + self.offset


class ByGradients(nn.Module):
    """Tells the mode by torch.is_grad_enabled(), as a textbook does, and keeps plain attributes."""

    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(1, 8))
        self.moving_mean, self.moving_var = torch.zeros(1, 8), torch.ones(1, 8)

    def forward(self, x):
        if not torch.is_grad_enabled():
            return self.gamma * (x - self.moving_mean) / (self.moving_var + 1e-5).sqrt()
        mean, var = x.mean(0, keepdim=True), x.var(0, keepdim=True, correction=0)
        self.moving_mean = (0.9 * self.moving_mean + 0.1 * mean).detach()
        self.moving_var = (0.9 * self.moving_var + 0.1 * var).detach()
        return self.gamma * (x - mean) / (var + 1e-5).sqrt()


def in_network():
    """F.batch_norm with statistics of the network itself."""
    net = Own(
        lambda net, x: net.output(F.batch_norm(net.linear(x), net.m, net.v, training=net.training)),
        linear=nn.Linear(6, 8), output=nn.Linear(8, 3),
    )  # fmt: skip
    net.register_buffer("m", torch.zeros(8))
    net.register_buffer("v", torch.ones(8))
    return net


NAMES = {
    "mu": {},
    "moving": {"names": ("moving_mean", "moving_variance")},
    "shaped": {"names": ("m", "v"), "shape": (1, 8)},
    "plain": {"plain": True},
}
OF_STATISTICS = {
    "mode_gap", "statistics_cold", "statistics_unused", "small_batch", "frozen_thaws", "buffers_apart", "momentum",
    "dropout_before_batchnorm",
}  # fmt: skip


def learned(norm, steps=60):
    torch.manual_seed(0)
    model = mlp(norm)
    batches = [(x, (x[:, 0] > 0).long()) for x in 5 * torch.randn(2, 64, 6) + 3]
    return train(model, batches, steps), batches


@pytest.mark.parametrize("share", [0.002, 0.1, 0.9])
@pytest.mark.parametrize("names", NAMES)
def test_batch_norm_by_hand_is_judged_as_torchs(names, share):
    ours, batches = learned(Hand(share=share, **NAMES[names]))
    theirs, _ = learned(nn.BatchNorm1d(8, momentum=share))
    torch.testing.assert_close(ours(batches[0][0]), theirs(batches[0][0]), rtol=1e-3, atol=1e-3)
    results = [check(model, batches, samples=64, steps=20) for model in (ours, theirs)]
    for id in OF_STATISTICS - {"statistics_cold"}:
        assert (id in results[0]) == (id in results[1]), (id, str(results[0]), results[0].not_checked)
        if id in results[0]:
            assert results[0][id].number == pytest.approx(results[1][id].number, rel=0.02)
    cold = 1 - share  # of a norm that does not count its batches
    assert ("statistics_cold" in results[0]) == (cold**20 > 0.05)
    if "statistics_cold" in results[0]:
        assert results[0]["statistics_cold"].number == pytest.approx(cold**20, rel=1e-3)
    assert ("not_saved" in results[0]) == (names == "plain")


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_fix_of_a_gap_by_hand_leaves_a_hundredth_of_the_old_statistics(share):
    model, batches = learned(Hand(share=share))
    model[1].mu += 20
    fix = check(model, batches, samples=64)["mode_gap"].fix
    count = int(re.search(r"cycle\(loader\), (\d+)\)", fix)[1])
    assert (1 - share) ** count <= 0.01 < (1 - share) ** (count - 1)
    exec(fix, {"model": model, "loader": batches, "torch": torch})
    assert "mode_gap" in check(model, batches, samples=64).healthy


@pytest.mark.parametrize("make", [lambda: mlp(Hand(root=True)), lambda: mlp(ByGradients()), in_network])
def test_statistics_that_nobody_knows_are_not_checked(make):
    """A stored deviation, a mode that gradients tell, buffers of the network around a function."""
    result = check(make(), rows(), steps=20)
    for id in OF_STATISTICS:
        assert id in result.not_checked, (id, result.healthy)
        assert "changes" in result.not_checked[id]
    assert ("not_saved" in result) == any(isinstance(m, ByGradients) for m in make().modules())


class OfClasses(nn.Module):
    """Its norm takes a class with its input."""

    class Conditional(Hand):
        def __init__(self):
            super().__init__(names=("running_mean", "running_var"), share=0.01)
            self.gain = nn.Embedding(3, 8)

        def forward(self, x, y):
            return super().forward(x) * (1 + self.gain(y))

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), self.Conditional(), nn.Linear(8, 3)

    def forward(self, x, y):
        return self.last(self.norm(self.first(x), y))


def test_nothing_is_healthy_of_running_statistics_that_are_not_understood():
    x, y = rows(2)  # two samples, at momentum 0.01
    healthy = check(OfClasses(), (x, y, y), devices=2, accumulate=4).healthy
    assert {id for id, kind in declared().items() if kind.texts.get("of")}.isdisjoint(healthy)


def test_layer_is_tried_once(monkeypatch):
    tried, moved = Counter(), Counter()
    know, move = recognize._recognized, running._paces
    monkeypatch.setattr(recognize, "_recognized", lambda m, path: tried.update([m]) or know(m, path))
    monkeypatch.setattr(running, "_paces", lambda m, size: moved.update([m]) or move(m, size))
    model = mlp(Hand(), HandRMS(8, wide=True))
    assert "mode_gap" in check(model, rows()).not_checked
    assert set(tried.values()) == {1}
    assert moved == {model[1]: 1}
    norm = Hand()
    norm.forward = norm.forward  # of this very object: a copy would write into it
    assert running.running_names(norm) is None
    assert not norm.mu.any()


class RoundsToInput(HandRMS):
    """Rounds to the type of its input before its gain of float32, whose type it gives: RMSNorm of transformers."""

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def test_norm_that_rounds_to_the_type_of_its_input_is_understood():
    model = nn.Sequential(nn.Linear(16, 32), RoundsToInput(32, wide=True), nn.Linear(32, 4))
    nn.init.normal_(model[0].weight, std=1e-5)
    nn.init.zeros_(model[0].bias)
    result = check(model, torch.randn(8, 12, 16), precision="bf16-mixed")
    assert "eps" in result
    assert "padding_counted" not in result.not_checked
    assert "bfloat16 -> float32" in result.norms[0]
    assert "not understood" not in result.norms[0]


def test_check_leaves_plain_attributes_alone():
    norm = Hand(plain=True)
    check(mlp(norm), rows())
    assert not norm.mu.any()
    assert bool((norm.var_ == 1).all())


def test_unused_statistics_are_said_of_a_network_that_learned_or_is_evaluated():
    new, loaded, half, used = mlp(), mlp(), mlp(), train(mlp(), [rows()])
    assert "some training" in check(new, rows()).not_checked["statistics_unused"]
    assert check(new.eval(), rows())["statistics_unused"].number == 2
    loaded[1].weight.data.uniform_(0.5, 2)
    assert found("statistics_unused", check(used, rows()), check(loaded, rows())).number == 2
    half[:3](rows()[0])
    assert check(half, rows())["statistics_unused"].layers == ("4",)


@pytest.mark.parametrize("eps", [0.0, -10.0, float("inf"), float("nan"), 1e3])
@pytest.mark.parametrize("make", [nn.LayerNorm, nn.BatchNorm1d, lambda n, eps: nn.GroupNorm(2, n, eps)])
def test_eps_that_no_norm_can_use_is_found_and_mended(make, eps):
    if eps <= 0 and make is nn.BatchNorm1d:
        pytest.skip("torch's BatchNorm refuses it")
    model, data = mlp(make(8, eps=eps)), rows()
    result = check(model, data)
    assert "eps" in result, str(result)
    exec(result["eps"].fix, {"model": model, "result": result})
    after = check(model, data)
    assert {"eps", "not_finite", "ignores_input"} <= set(after.healthy), str(after)


def test_norm_that_makes_no_numbers_of_numbers():
    data = rows()
    data[0][3] = 0
    model = nn.Sequential(nn.LayerNorm(6, eps=0.0), nn.Linear(6, 3), nn.LayerNorm(3))
    result = check(model, data)
    assert result["not_finite"].layers == ("0",)
    exec(result["not_finite"].fix, {"model": model})
    assert "not_finite" in check(model, data).healthy
    lost = check(mlp(nn.LayerNorm(8)), data, loss=lambda y, _: y.sum() * float("nan"))
    assert "loss is no number" in lost.not_checked["not_finite"]


@pytest.mark.parametrize("kind", ["module", "function"])
def test_norm_inside_vmap_is_not_checked_and_not_blamed(kind):
    inner = nn.LayerNorm(6) if kind == "module" else lambda x: F.layer_norm(x, (6,))
    mapped = Own(
        lambda net, x: net.output(torch.vmap(net.second)(net.first(x))),
        first=nn.LayerNorm(6), second=inner, output=nn.Linear(6, 3),
    )  # fmt: skip
    result = check(mapped, rows())
    assert "pass_fails" in result.healthy
    assert all("vmap" in result.not_checked[id] for id in ("eps", "not_finite", "norm_of_norm", "one_value"))
    monitor = Activations(every_n_steps=1, places=("norm_input", "norm_output"), statistics=("mean",))
    said = pytest.warns(UserWarning, match="vmap") if kind == "module" else contextlib.nullcontext()
    with said:
        measured = monitor.measure(mapped, rows())
    assert {key.rpartition("_")[2] for key in measured} == {"first"}


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_fix_names_what_is_there():
    """The fixes of functions, of norms by hand, and of a checkpoint."""

    def checkpointed(reentrant):
        return Own(
            lambda net, x: net.output(checkpoint(net.net, x, use_reentrant=reentrant)),
            net=mlp(nn.LayerNorm(8))[:2], output=nn.Linear(8, 3),
        )  # fmt: skip

    assert "use_reentrant=False" in check(checkpointed(True), rows())["nothing_learns"].fix
    assert "nothing_learns" in check(checkpointed(False), rows()).healthy
    model = mlp(Called(lambda x: F.normalize(x, dim=0)))
    assert check(model, rows())["batch_in_eval"].fix.startswith("in model[1]: F.normalize(x, dim=-1)")
    assert "batch_in_eval" in check(mlp(Called(lambda x: F.normalize(x, dim=-1))), rows()).healthy

    class OverBatch(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(8))

        def forward(self, x):
            return (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt() * self.gain

    fix = check(mlp(OverBatch()), rows())["batch_in_eval"].fix
    assert "OverBatch: keep a running mean" in fix
    assert "track_running_stats" not in fix
