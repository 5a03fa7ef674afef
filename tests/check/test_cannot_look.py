"""Healthy is said only where something was measured: each finding on a network of the kind in which it cannot look."""

import copy

import pytest
import torch
from small_networks import Called, images, rows, train
from test_findings import Sequence, mlp
from test_structure import CohereNorm, Pooled
from torch import nn
from torch.distributions import Normal
from torch.nn import functional as F
from torch.nn.modules import module as all_modules
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import normexp.norms
from normexp.check.finding import declared
from normexp.check.run import check


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


class Own:
    """A batch whose samples nobody can count."""

    def __init__(self, *tensors):
        self.tensors = tensors


class Reads(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, batch):
        return self.net(batch.tensors[0])


def tokens():
    x = torch.randint(1, 11, (16, 12))
    return x, x


def unknown():
    return nn.Sequential(nn.Linear(6, 8), CohereNorm(), nn.Linear(8, 3))


def trained(model=None):
    batches = [rows(), rows()]
    return train(model or mlp(), batches, 4), batches


class Halves(nn.Module):
    """Half as many positions, so that neither a mask nor the output fits the input."""

    def __init__(self, norm):
        super().__init__()
        self.embedding, self.norm, self.output = nn.Embedding(11, 8), norm, nn.Linear(8, 11)

    def forward(self, x):
        x = self.embedding(x).cumsum(1)[:, ::2]
        return self.output(self.norm(x.transpose(1, 2)).transpose(1, 2))


class Fails(nn.Module):
    def __init__(self, when):
        super().__init__()
        self.net, self.when = mlp(), when

    def forward(self, x):
        if self.training == self.when:
            raise RuntimeError("on purpose")
        return self.net(x)


class Conditional(nn.Module):
    """A BatchNorm by hand that takes a class with its input."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Embedding(3, 8)
        self.register_buffer("running_mean", torch.zeros(8))
        self.register_buffer("running_var", torch.ones(8))

    def forward(self, x, y):
        mean, var = self.running_mean, self.running_var
        if self.training:
            mean, var = x.mean(0), x.var(0)
            self.running_mean.lerp_(mean.detach(), 0.01)
            self.running_var.lerp_(var.detach(), 0.01)
        return (x - mean) / (var + 1e-5).sqrt() * (1 + self.gain(y))


class OfClasses(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), Conditional(), nn.Linear(8, 3)

    def forward(self, x, y):
        return self.last(self.norm(self.first(x), y))


class ByChannel(nn.Module):
    """A causal convolution of each channel by itself, as forecasts of several series take it."""

    def __init__(self, norm):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(4, 4, 3, groups=4), norm
        self.mix = nn.GroupNorm(4, 4)  # is not called

    def forward(self, x):
        return self.norm(self.conv(F.pad(x, (2, 0))))


class Norms(nn.Sequential):
    """Takes each position by itself."""

    def __init__(self, norm):
        super().__init__(nn.Linear(6, 6), norm, nn.Linear(6, 6))


def less_mean(x):
    return x - x.mean(2, keepdim=True)


@pytest.mark.parametrize(
    "norm", [nn.InstanceNorm1d(4), nn.BatchNorm1d(4), normexp.norms.GroupNorm(4, num_groups=4)]
)
def test_channels_that_do_not_mix_are_no_positions(norm):
    x, model = torch.randn(6, 4, 9), ByChannel(norm)
    later = x.clone()
    later[..., 7:] += 1
    leak = (model(x) - model(later))[..., :7].abs().max()
    assert leak > 0.01
    assert check(model, x, causal=True)["sees_future"].layers == ("norm",)
    for healthy, inputs in ((ByChannel(nn.Identity()), x), (Norms(nn.LayerNorm(6)), torch.randn(5, 9, 6))):
        assert "sees_future" in check(healthy, inputs, causal=True).healthy


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.output = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.output(self.norm(self.linear(x)).detach())


class Skips(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp()

    def training_step(self, batch, index):
        return None


class Stream(IterableDataset):
    """Has no length."""

    def __iter__(self):
        return zip(*rows(), strict=True)


class Student(nn.Module):
    """Follows the average of its own weights."""

    def __init__(self):
        super().__init__()
        self.student = mlp()
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            self.teacher(x)
        return self.student(x)


class ActNorm(nn.Module):
    """Sets its weights by the first batch."""

    def __init__(self):
        super().__init__()
        self.loc, self.scale = nn.Parameter(torch.zeros(6)), nn.Parameter(torch.ones(6))
        self.register_buffer("set", torch.tensor(False))

    def forward(self, x):
        if not self.set:
            with torch.no_grad():
                self.loc.copy_(x.mean(0))
                self.scale.copy_(1 / x.std(0))
                self.set.fill_(True)
        return (x - self.loc) * self.scale


def around(mean):
    return Normal(mean, 1.0)


def other_optimizer():
    return {"optimizer": torch.optim.SGD(mlp().parameters(), 0.1, weight_decay=0.1)}


LIKELY = {"loss": lambda given, _: -given.log_prob(torch.zeros(3)).mean()}
NO_NUMBER = {"loss": lambda y, _: y.sum() * float("nan")}
FULL = torch.ones(16, 12, dtype=torch.bool)
HALF = torch.ones(16, 6, dtype=torch.bool).tril()
# finding -> networks, data and options with which it cannot look, and a word of what it says
CASES = {
    "statistics_unused": [lambda: (mlp(), rows(), {}, "some training")],
    "not_finite": [lambda: (Fails(True), rows(), {}, "fails"), lambda: (mlp(), rows(), NO_NUMBER, "no number")],
    "mode_gap": [
        lambda: (mlp(), rows(), {}, "seen no batch"),
        lambda: (trained()[0], rows()[0], {}, "pass loss="),
        lambda: (train(Fails(False).train(), [rows()], 1), rows(), {}, "on purpose"),
    ],
    "statistics_cold": [
        lambda: (mlp(), rows(), {}, "steps="),
        lambda: (mlp(), DataLoader(Stream(), 8), {}, "with a length"),
    ],
    "small_batch": [
        lambda: (Reads(mlp()), [Own(rows()[0])], {}, "cannot be counted"),
        lambda: (mlp(), [(rows()[0], torch.randn(5))], {}, "cannot be counted"),
    ],
    "frozen_thaws": [
        lambda: (Fails(True), rows(), {}, "fails"),
        lambda: (Student(), rows(), {}, "teacher.1 is in a copy"),
    ],
    "buffers_apart": [lambda: (mlp(), rows(), {"devices": 2}, "DistributedDataParallel")],
    "stale_average": [
        lambda: (mlp(), rows(), {}, "averaged="),
        lambda: (mlp(), rows(), {"averaged": mlp()}, "seen no batch"),
    ],
    "last_batch_of_one": [
        lambda: (mlp(), rows(), {}, "DataLoader"),
        lambda: (mlp(), DataLoader(TensorDataset(*rows(9)), batch_sampler=[list(range(8)), [8]]), {}, "batch_size="),
        lambda: (mlp(), DataLoader(Stream(), 8), {}, "no length"),
    ],
    "pass_fails": [lambda: (Skips(), rows(), {}, "no loss")],
    "one_value": [lambda: (unknown(), rows(), {}, "formula"), lambda: (Fails(True), rows(), {}, "fails")],
    "eps": [lambda: (unknown(), rows(), {}, "formula"), lambda: (Skips(), rows(), {}, "no loss")],
    "constant_channels": [lambda: (unknown(), rows(), {}, "formula")],
    "fixed_output": [lambda: (unknown(), rows(), {}, "formula")],
    "norm_of_norm": [lambda: (unknown(), rows(), {}, "formula")],
    "overflow": [
        lambda: (mlp(), rows(), {}, "precision="),
        lambda: (Fails(True), rows(), {"precision": "16-mixed"}, "fails"),
    ],
    "dropout_before_batchnorm": [lambda: (Fails(True), rows(), {}, "fails")],
    "decay_on_norms": [
        lambda: (mlp(), rows(), {}, "optimizer="),
        lambda: (mlp(), rows(), other_optimizer(), "of this one"),
    ],
    "not_optimized": [
        lambda: (mlp(), rows(), {}, "optimizer="),
        lambda: (mlp(), rows(), other_optimizer(), "of this one"),
    ],
    "not_saved": [lambda: (mlp(), rows(), {}, "state_dict=")],
    "nothing_learns": [lambda: (Detached(), rows()[0], {}, "pass loss=")],
    "batch_in_eval": [
        lambda: (Reads(mlp(nn.BatchNorm1d(8, track_running_stats=False))), [Own(rows()[0])], {}, "each sample"),
        lambda: (nn.Sequential(ActNorm(), mlp(nn.LayerNorm(8))), rows(), {}, "first batch sets"),
        lambda: (nn.Sequential(mlp(nn.LayerNorm(8)), Called(around)), rows(), LIKELY, "Normal holds no"),
    ],
    "padding_counted": [
        lambda: (Sequence(nn.BatchNorm1d(8)), tokens(), {}, "mask="),
        lambda: (Sequence(nn.BatchNorm1d(8)), tokens(), {"mask": FULL}, "is padding"),
        lambda: (Sequence(nn.BatchNorm1d(8)), tokens(), {"mask": HALF}, "(16, 6)"),
        lambda: (Halves(nn.BatchNorm1d(8)), tokens(), {"mask": FULL.tril()}, "(16, 12)"),
        lambda: (Sequence(nn.BatchNorm1d(8)), tokens(), {"mask": FULL[0]}, "(N, T)"),
    ],
    "sees_future": [
        lambda: (Sequence(nn.LayerNorm(8), causal=False), tokens(), {}, "causal=True"),
        lambda: (nn.TransformerEncoderLayer(8, 2, 16), torch.randn(6, 4, 8), {}, "batch_first"),
        lambda: (Halves(nn.BatchNorm1d(8)), tokens(), {}, "no axis of the output"),
        lambda: (Reads(Sequence(nn.BatchNorm1d(8))), [Own(tokens()[0])], {}, "hide"),
        lambda: (ByChannel(Called(less_mean)), torch.randn(6, 4, 9), {"causal": True}, "which has positions?"),
        lambda: (Norms(nn.LayerNorm(6)), torch.randn(5, 6, 6), {"causal": True}, "which has positions?"),
    ],
    **{
        id: [lambda: (Fails(True), rows(), {}, "fails")]
        for id in ("bias_cancelled", "not_held", "wrong_axis", "types")
    },
    "ignores_input": [
        lambda: (Pooled(nn.InstanceNorm2d(8), zero=True), images(), {}, "after some training"),
        lambda: (Fails(True), rows(), {}, "fails"),
    ],
}  # fmt: skip
# what it needs is always there: options of layers
ALWAYS = {"momentum"}


def test_every_finding_has_a_network_in_which_it_cannot_look():
    assert CASES.keys() | ALWAYS == declared().keys()


@pytest.mark.parametrize("id", [id for id, kind in declared().items() if kind.texts.get("of")])
def test_nothing_is_healthy_of_running_statistics_that_are_not_understood(id):
    (x, y), model = rows(2), OfClasses()  # of two samples, at momentum 0.01
    assert id not in check(model, (x, y, y), devices=2, accumulate=4).healthy


@pytest.mark.parametrize(
    ("id", "number"), [(id, n) for id, cases in CASES.items() for n in range(len(cases))]
)
def test_finding_that_cannot_look_says_what_to_pass(id, number):
    model, data, options, words = CASES[id][number]()
    result = check(model, data, **options)
    assert id not in result.healthy
    assert id not in result, str(result)
    assert words in result.not_checked[id]
    assert not all_modules._global_forward_hooks


class Hidden(torch.autograd.Function):
    """A norm over positions whose backward pass treats the statistics as constants."""

    @staticmethod
    def forward(ctx, x):
        std = x.std(1, keepdim=True) + 1e-5
        ctx.save_for_backward(std)
        return (x - x.mean(1, keepdim=True)) / std

    @staticmethod
    def backward(ctx, g):
        return g / ctx.saved_tensors[0]


class HiddenNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(8)), 1e-5

    def forward(self, x):
        return Hidden.apply(x) * self.weight


class Rows(nn.Module):
    """Flattens (N, T, C) to rows before its norm."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, x):
        return self.norm(x.flatten(0, 1)).view(x.shape)


class Last(Sequence):
    def forward(self, tokens):
        x = self.embedding(tokens).cumsum(1)
        return self.output(self.norm(x) if isinstance(self.norm, nn.Module) else self.calls(x))

    def calls(self, x):
        """Without a module around the function."""
        return F.layer_norm(x, x.shape[1:]) if self.norm == "layer" else self.over_positions(x)

    def over_positions(self, x):
        return F.batch_norm(x.transpose(1, 2), None, None, training=True).transpose(1, 2)


LEAKS = {
    "backward that hides it": lambda: HiddenNorm(),
    "rows": lambda: Rows(nn.BatchNorm1d(8)),
    "function in a layer": lambda: Called(lambda x: F.layer_norm(x, x.shape[1:])),
    "function": lambda: "layer",
    "function over another axis": lambda: "batch",
    "eps of 0": lambda: normexp.norms.BatchNorm(8, channel_dim=-1, eps=0.0),
}  # fmt: skip


@pytest.mark.parametrize("leak", LEAKS)
def test_leak_is_seen_however_it_is_written(leak):
    data = tokens()
    healthy = check(Last(nn.LayerNorm(8)), data)
    assert "sees_future" in healthy.healthy
    model = Last(LEAKS[leak]())
    finding = check(model, data)["sees_future"]
    assert all(layer.startswith(("norm", "self:F.")) for layer in finding.layers)
    changed = data[0].clone()
    changed[:, 7:] = 1
    assert not torch.allclose(model(data[0])[:, :7], model(changed)[:, :7], atol=1e-3)


def test_mask_of_rows_and_of_time_first():
    x = torch.randn(8, 40, 8) + 2
    mask = torch.arange(40) < torch.arange(5, 45, 5)[:, None]
    x = x * mask[..., None]

    class Net(nn.Module):
        def __init__(self, how):
            super().__init__()
            self.linear, self.norm, self.how = nn.Linear(8, 8), nn.BatchNorm1d(8), how
            if how == "time first":
                self.norm = normexp.norms.BatchNorm(8, channel_dim=-1)

        def forward(self, x):
            h = self.linear(x)
            if self.how == "packed":
                return self.norm(h[mask])
            if self.how == "rows":
                return self.norm(h.flatten(0, 1)).view(h.shape)
            if how == "time first":
                return self.norm(h.transpose(0, 1)).transpose(0, 1)
            return self.norm(h.transpose(1, 2)).transpose(1, 2)

    numbers = {}
    for how in ("rows", "channels first", "time first"):
        torch.manual_seed(1)
        model = Net(how)
        numbers[how] = check(model, x, mask=mask)["padding_counted"].number
        h = model.linear(x).detach().double()
        real = h[mask]
        std = (real.var(0, correction=0) + 1e-5).sqrt()
        apart = ((h.flatten(0, 1).mean(0) - real.mean(0)) / std).square().mean().sqrt().item()
        wider = ((h.flatten(0, 1).var(0, correction=0) + 1e-5).sqrt() / std - 1).square().mean().sqrt().item()
        assert numbers[how] == pytest.approx(max(apart, wider), rel=1e-4)
    assert (
        "padding_counted" in check(Net("packed"), x, mask=mask, loss=lambda y, _: y.square().mean()).healthy
    )


def test_padding_in_its_ordinary_place_is_no_constant_channel():
    x = torch.randint(0, 4, (8, 24))

    class Net(nn.Module):
        def __init__(self, padding_idx):
            super().__init__()
            self.table, self.norm, self.output = (
                nn.Embedding(4, 8, padding_idx),
                nn.LayerNorm(8),
                nn.Linear(8, 4),
            )

        def forward(self, x):
            return self.output(self.norm(self.table(x)))

    assert "constant_channels" in check(Net(0), (x, x)).healthy
    dead = Net(None)
    dead.table.weight.data[0] = 0  # without a sign that it is padding
    inner = []  # zeros at the ends of a sample are padding by their place
    for row in x.tolist():
        kept = [i for i, token in enumerate(row) if token]
        inner += row[kept[0] : kept[-1] + 1]
    assert check(dead, (x, x))["constant_channels"].number == pytest.approx(inner.count(0) / len(inner))

    class Frames(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.output = (
                nn.Conv1d(1, 8, 4, 4, bias=False),
                nn.LayerNorm(8),
                nn.Linear(8, 3),
            )

        def forward(self, x):
            return self.output(self.norm(self.conv(x.unsqueeze(1)).transpose(1, 2)).mean(1))

    wave = torch.randn(8, 80) * (torch.arange(80) < torch.arange(10, 90, 10)[:, None])
    assert "constant_channels" in check(Frames(), (wave, torch.randint(0, 3, (8,)))).healthy
