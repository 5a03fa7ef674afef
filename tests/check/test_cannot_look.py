"""Healthy is said only where something was measured: each finding on a network of the kind in which it cannot look."""

import copy

import pytest
import torch
from small_networks import Called, Own, Sequence, around, images, mlp, rows, tokens, train
from test_sequences import by_channel, by_position
from test_structure import CohereNorm, pooled
from torch import nn
from torch.distributions import Normal
from torch.nn.modules import module as all_modules
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from normexp.check.finding import declared
from normexp.check.run import check


class Batch:
    """A batch whose samples nobody can count."""

    def __init__(self, x):
        self.x = x


def reads(net, x):
    """A network that takes such a batch."""
    return Own(lambda self, batch: self.net(batch.x), net=net), [Batch(x)]


def unknown():
    return around(CohereNorm())


def trained():
    return train(mlp(), [rows(), rows()], 4)


def halves(norm):
    """Half as many positions, so that neither a mask nor the output fits the input."""
    parts = {"embedding": nn.Embedding(11, 8), "norm": norm, "output": nn.Linear(8, 11)}
    return Own(lambda net, x: net.output(net.norm(net.embedding(x).cumsum(1)[:, ::2].mT).mT), **parts)


def fails(when=True):
    """A network that fails in training mode, or in eval mode."""

    def forward(net, x):
        if net.training == when:
            raise RuntimeError("on purpose")
        return net.net(x)

    return Own(forward, net=mlp())


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


def detached():
    parts = {"linear": nn.Linear(6, 8), "norm": nn.LayerNorm(8), "output": nn.Linear(8, 3)}
    return Own(lambda net, x: net.output(net.norm(net.linear(x)).detach()), **parts)


def student():
    """Follows the average of its own weights."""

    def forward(net, x):
        with torch.no_grad():
            net.teacher(x)
        return net.student(x)

    net = mlp()
    return Own(forward, student=net, teacher=copy.deepcopy(net).requires_grad_(False))


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


def less_mean(x):
    return x - x.mean(2, keepdim=True)


def batch_norm():
    return Sequence(nn.BatchNorm1d(8))


def other_optimizer():
    return {"optimizer": torch.optim.SGD(mlp().parameters(), 0.1, weight_decay=0.1)}


def likelihood():
    """A network that gives a distribution, and its loss."""
    net = nn.Sequential(mlp(nn.LayerNorm(8)), Called(lambda mean: Normal(mean, 1.0)))
    return net, rows(), {"loss": lambda given, _: -given.log_prob(torch.zeros(3)).mean()}


NO_NUMBER = {"loss": lambda y, _: y.sum() * float("nan")}
FULL = torch.ones(16, 12, dtype=torch.bool)
CAUSAL = {"causal": True}
FAILS = [("fails", lambda: (fails(), rows(), {}))]
FORMULA = [("formula", lambda: (unknown(), rows(), {}))]
OPTIMIZERS = [
    ("optimizer=", lambda: (mlp(), rows(), {})),
    ("of this one", lambda: (mlp(), rows(), other_optimizer())),
]
# finding -> networks, data and options with which it cannot look, and a word of what it says
CASES = {
    "statistics_unused": [("some training", lambda: (mlp(), rows(), {}))],
    "not_finite": [
        ("fails", lambda: (fails(), rows(), {})),
        ("no number", lambda: (mlp(), rows(), NO_NUMBER)),
    ],
    "mode_gap": [
        ("seen no batch", lambda: (mlp(), rows(), {})),
        ("pass loss=", lambda: (trained(), rows()[0], {})),
        ("on purpose", lambda: (train(fails(False).train(), [rows()], 1), rows(), {})),
    ],
    "statistics_cold": [
        ("steps=", lambda: (mlp(), rows(), {})),
        ("with a length", lambda: (mlp(), DataLoader(Stream(), 8), {})),
    ],
    "small_batch": [
        ("cannot be counted", lambda: (*reads(mlp(), rows()[0]), {})),
        ("cannot be counted", lambda: (mlp(), [(rows()[0], torch.randn(5))], {})),
    ],
    "frozen_thaws": [
        ("fails", lambda: (fails(), rows(), {})),
        ("teacher.1 is in a copy", lambda: (student(), rows(), {})),
    ],
    "buffers_apart": [("DistributedDataParallel", lambda: (mlp(), rows(), {"devices": 2}))],
    "stale_average": [
        ("averaged=", lambda: (mlp(), rows(), {})),
        ("seen no batch", lambda: (mlp(), rows(), {"averaged": mlp()})),
    ],
    "last_batch_of_one": [
        ("DataLoader", lambda: (mlp(), rows(), {})),
        ("batch_size=", lambda: (mlp(), DataLoader(TensorDataset(*rows(9)), batch_sampler=[[*range(8)], [8]]), {})),
        ("no length", lambda: (mlp(), DataLoader(Stream(), 8), {})),
    ],
    "pass_fails": [("no loss", lambda: (Skips(), rows(), {}))],
    "eps": [
        ("formula", lambda: (unknown(), rows(), {})),
        ("no loss", lambda: (Skips(), rows(), {})),
    ],
    "overflow": [
        ("precision=", lambda: (mlp(), rows(), {})),
        ("fails", lambda: (fails(), rows(), {"precision": "16-mixed"})),
    ],
    "not_saved": [("state_dict=", lambda: (mlp(), rows(), {}))],
    "nothing_learns": [("pass loss=", lambda: (detached(), rows()[0], {}))],
    "batch_in_eval": [
        ("each sample", lambda: (*reads(mlp(nn.BatchNorm1d(8, track_running_stats=False)), rows()[0]), {})),
        ("first batch sets", lambda: (nn.Sequential(ActNorm(), mlp(nn.LayerNorm(8))), rows(), {})),
        ("Normal holds no", likelihood),
    ],
    "padding_counted": [
        ("mask=", lambda: (batch_norm(), tokens(), {})),
        ("mask= gives a NoneType", lambda: (batch_norm(), tokens(), {"mask": lambda batch: None})),
        ("is padding", lambda: (batch_norm(), tokens(), {"mask": FULL})),
        ("(16, 6)", lambda: (batch_norm(), tokens(), {"mask": FULL[:, :6].tril()})),
        ("(16, 12)", lambda: (halves(nn.BatchNorm1d(8)), tokens(), {"mask": FULL.tril()})),
        ("(N, T)", lambda: (batch_norm(), tokens(), {"mask": FULL[0]})),
    ],
    "sees_future": [
        ("causal=True", lambda: (Sequence(nn.LayerNorm(8), causal=False), tokens(), {})),
        ("batch_first", lambda: (nn.TransformerEncoderLayer(8, 2, 16), torch.randn(6, 4, 8), {})),
        ("no axis of the output", lambda: (halves(nn.BatchNorm1d(8)), tokens(), {})),
        ("no axis of the output", lambda: (halves(nn.BatchNorm1d(8)), tokens(length=3), {})),
        ("hide", lambda: (*reads(batch_norm(), tokens()[0]), {})),
        ("which has positions?", lambda: (by_channel(Called(less_mean)), torch.randn(6, 4, 9), CAUSAL)),
        ("which has positions?", lambda: (by_position(nn.LayerNorm(6)), torch.randn(5, 6, 6), CAUSAL)),
    ],
    "ignores_input": [
        ("after some training", lambda: (pooled(nn.InstanceNorm2d(8), zero=True), images(), {})),
        ("fails", lambda: (fails(), rows(), {})),
    ],
    "decay_on_norms": OPTIMIZERS,
    "not_optimized": OPTIMIZERS,
    "constant_channels": FORMULA,
    "fixed_output": FORMULA,
    "norm_of_norm": FORMULA,
    "one_value": FORMULA + FAILS,
    "bias_cancelled": FAILS,
    "not_held": FAILS,
    "wrong_axis": FAILS,
    "types": FAILS,
    "dropout_before_batchnorm": FAILS,
}  # fmt: skip
# what it needs is always there: options of layers
ALWAYS = {"momentum"}


def test_every_finding_has_a_network_in_which_it_cannot_look():
    assert CASES.keys() | ALWAYS == declared().keys()


@pytest.mark.parametrize(
    ("id", "number"), [(id, number) for id, cases in CASES.items() for number in range(len(cases))]
)
def test_finding_that_cannot_look_says_what_to_pass(id, number):
    words, make = CASES[id][number]
    model, data, options = make()
    result = check(model, data, **options)
    assert id not in result.healthy
    assert id not in result, str(result)
    assert words in result.not_checked[id]
    assert not all_modules._global_forward_hooks
