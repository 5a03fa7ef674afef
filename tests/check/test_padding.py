"""Padding inside the statistics of a norm, whichever way its batch says where it stands."""

import pytest
import torch
from small_networks import Own, Sequence, found, tokens
from torch import nn

import normexp.norms
from normexp.check.run import check


def moved_by_padding(x, mask, eps):
    """How far padding moves mean and deviation of (N, T, C), in deviations of the real rows."""
    x = x.detach().double()
    real, every = x[mask], x.flatten(0, 1)
    std = (real.var(0, correction=0) + eps).sqrt()
    apart = (every.mean(0) - real.mean(0)) / std
    wider = (every.var(0, correction=0) + eps).sqrt() / std - 1
    return max(float(move.square().mean().sqrt()) for move in (apart, wider))


class Told(Sequence):
    def forward(self, tokens, attention_mask=None, lengths=None):
        return super().forward(tokens)


TOLD = {
    "mask=": lambda tokens, mask: ((tokens, tokens), {"mask": mask}),
    "attention_mask": lambda tokens, mask: ({"tokens": tokens, "attention_mask": mask.long()}, {}),
    "lengths": lambda tokens, mask: ({"tokens": tokens, "lengths": mask.sum(1)}, {}),
    "padding_idx=0": lambda tokens, mask: ((tokens, tokens), {}),
}


@pytest.mark.parametrize("told", TOLD)
def test_padding_counted(told):
    x, _ = tokens(padded=True)
    mask = x > 0
    data, options = TOLD[told](x, mask)
    healthy = check(Told(nn.LayerNorm(8)), data, **options)
    model = Told(nn.BatchNorm1d(8, eps=9.0))
    model.embedding.weight.data[0] = 4
    model.embedding.padding_idx = 0 if told == "padding_idx=0" else None
    finding = found("padding_counted", healthy, check(model, data, **options))
    share = 1 - mask.sum().item() / mask.numel()
    assert finding.sentence.startswith(f"{share:.0%} of the positions are padding ({told})")
    assert finding.number == pytest.approx(moved_by_padding(model.embedding(x).cumsum(1), mask, 9), rel=1e-4)


def test_mask_is_cut_as_its_batch_and_a_sample_of_padding_alone_does_not_count():
    x, mask = tokens()[0], tokens(padded=True)[0] > 0
    mask[3] = False

    def number(rows, **options):
        return check(model, (x[rows],) * 2, **options)["padding_counted"].number

    for model in (Sequence(nn.BatchNorm1d(8)), Sequence(nn.InstanceNorm1d(8))):
        model.embedding.weight.data[1] = 4
        half = slice(8)
        assert number(slice(16), mask=mask, samples=8) == pytest.approx(number(half, mask=mask[half]))
    real = mask.any(1)
    assert number(slice(16), mask=mask) == pytest.approx(number(real, mask=mask[real]), rel=1e-5)


def test_norm_that_is_told_what_is_padding_leaves_it_out():
    class Masked(nn.BatchNorm1d):
        def forward(self, x, mask):
            return torch.zeros_like(x).masked_scatter(mask[..., None], super().forward(x[mask]))

    class Net(Sequence):
        def forward(self, tokens, mask):
            return self.output(self.norm(self.embedding(tokens), mask))

    x, mask = tokens()[0], tokens(padded=True)[0] > 0
    assert "padding_counted" in check(Net(Masked(8)), {"tokens": x, "mask": mask}, mask=mask).healthy


MASK = torch.arange(40) < torch.arange(5, 45, 5)[:, None]
FORMS = {  # a norm of (8, 40, 8), and how it is called
    "rows": (nn.BatchNorm1d, lambda norm, h: norm(h.flatten(0, 1)).view(h.shape)),
    "channels first": (nn.BatchNorm1d, lambda norm, h: norm(h.transpose(1, 2)).transpose(1, 2)),
    "time first": (
        lambda n: normexp.norms.BatchNorm(n, channel_dim=-1),
        lambda norm, h: norm(h.transpose(0, 1)).transpose(0, 1),
    ),
    "packed": (nn.BatchNorm1d, lambda norm, h: norm(h[MASK])),
}


@pytest.mark.parametrize("form", FORMS)
def test_mask_of_rows_and_of_time_first(form):
    x = (torch.randn(8, 40, 8) + 2) * MASK[..., None]
    make, call = FORMS[form]
    model = Own(lambda net, x: call(net.norm, net.linear(x)), linear=nn.Linear(8, 8), norm=make(8))
    if form == "packed":
        options = {"loss": lambda y, _: y.square().mean()}
        assert "padding_counted" in check(model, x, mask=MASK, **options).healthy
    else:
        number = check(model, x, mask=MASK)["padding_counted"].number
        assert number == pytest.approx(moved_by_padding(model.linear(x), MASK, 1e-5), rel=1e-4)


def test_padding_in_its_ordinary_place_is_no_constant_channel():
    x = torch.randint(0, 4, (8, 24))

    def of_tokens(padding_idx):
        return nn.Sequential(nn.Embedding(4, 8, padding_idx), nn.LayerNorm(8), nn.Linear(8, 4))

    assert "constant_channels" in check(of_tokens(0), (x, x)).healthy
    dead = of_tokens(None)
    dead[0].weight.data[0] = 0  # without a sign that it is padding
    inner = []  # zeros at the ends of a sample are padding by their place
    for row in x.tolist():
        kept = [i for i, token in enumerate(row) if token]
        inner += row[kept[0] : kept[-1] + 1]
    assert check(dead, (x, x))["constant_channels"].number == pytest.approx(inner.count(0) / len(inner))
    frames = Own(
        lambda net, x: net.output(net.norm(net.conv(x.unsqueeze(1)).transpose(1, 2)).mean(1)),
        conv=nn.Conv1d(1, 8, 4, 4, bias=False), norm=nn.LayerNorm(8), output=nn.Linear(8, 3),
    )  # fmt: skip
    wave = torch.randn(8, 80) * (torch.arange(80) < torch.arange(10, 90, 10)[:, None])
    assert "constant_channels" in check(frames, (wave, torch.randint(0, 3, (8,)))).healthy
