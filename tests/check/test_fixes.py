"""The printed fix, applied: the finding is gone."""

import pytest
import torch
from small_networks import Called, Own, around, cnn, images, mlp, rows, tokens, train
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import normexp
from normexp.check.run import check


def fixed(id, model, data, **options):
    """The finding, after its fix is applied to the network and, if it makes one, the optimizer is taken."""
    result = check(model, data, **options)
    finding = result[id]
    names = options | {
        "model": model,
        "result": result,
        "loader": data,
        "normexp": normexp,
        "nn": nn,
        "torch": torch,
    }
    exec(finding.fix, names)
    after = check(model, data, **{name: names[name] for name in options})
    assert id not in after, (finding.fix, str(after))
    return finding, after


def scaled(scale, norm):
    """A norm that gets numbers of another size."""
    return nn.Sequential(nn.Linear(6, 8), Called(lambda x: x * scale), norm, nn.ReLU(), nn.Linear(8, 6))


def negative():
    model = mlp()
    model[1].running_var[0] = -1.0
    return model


def shifted(model):
    for m in model.modules():
        if hasattr(m, "running_mean"):
            m.running_mean += 2
    return model


def trained(model, steps=60):
    batches = [(x, (x[:, 0] > 0).long()) for x in torch.randn(4, 64, 6)]
    return train(model, batches, steps), batches


def guilty(norm):
    """Nine healthy norms, and one over the positions."""

    def forward(net, tokens):
        x = net.embedding(tokens).cumsum(1)
        for norm in net.healthy[:4]:
            x = x + norm(x)
        x = x + net.norm(x.mT).mT
        for norm in net.healthy[4:]:
            x = x + norm(x)
        return net.output(x)

    healthy = nn.ModuleList(nn.LayerNorm(8) for _ in range(9))
    return Own(forward, embedding=nn.Embedding(11, 8), norm=norm, healthy=healthy, output=nn.Linear(8, 11))


# finding -> network, data and options, where the faults of public threads (test_rates.py) have no such fix
CASES = {
    "momentum, above 1": lambda: (mlp(nn.BatchNorm1d(8, momentum=2.0)), rows(), {}),
    "statistics_cold, of this project": lambda: (mlp(normexp.norms.BatchNorm(8)), rows(), {"steps": 20}),
    "small_batch, mean over pixels": lambda: (cnn(), images(4), {}),
    "not_finite, negative": lambda: (negative(), rows(), {}),
    "eps, of two norms": lambda: (
        nn.Sequential(scaled(1e-3, nn.LayerNorm(8)), scaled(3e-4, nn.LayerNorm(8))), rows(classes=6), {},
    ),
    "one_value, groups": lambda: (around(nn.GroupNorm(4, 8)), rows(), {}),
    "one_value, pixels": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, (8, 7)), nn.InstanceNorm2d(8), nn.Flatten(), nn.Linear(16, 3)), images(), {},
    ),
    "one_value, samples": lambda: (
        nn.Sequential(nn.Linear(6, 1), nn.LayerNorm(1), nn.Linear(1, 6), mlp(nn.LayerNorm(8))), rows(), {},
    ),
    "sees_future, BatchNorm": lambda: (guilty(nn.BatchNorm1d(8)), tokens(), {}),
    "sees_future, GroupNorm": lambda: (guilty(nn.GroupNorm(2, 8)), tokens(), {}),
    "sees_future, InstanceNorm": lambda: (guilty(nn.InstanceNorm1d(8)), tokens(), {}),
    "sees_future, over (C, T)": lambda: (guilty(normexp.norms.LayerNorm(8)), tokens(), {}),
}  # fmt: skip


SAID = {"not_finite, negative": "variance below 0", "momentum, above 1": "lies above 0 and is at most 1"}


@pytest.mark.parametrize("case", CASES)
def test_fix_makes_the_finding_go_away(case):
    id = case.partition(",")[0]
    model, data, options = CASES[case]()
    finding, after = fixed(id, model, data, **options)
    assert id in after.healthy
    assert SAID.get(case, "") in finding.sentence
    assert "ignores_input" not in after
    if id == "sees_future":
        assert finding.layers == ("norm",)
        assert all(type(norm) is nn.LayerNorm for norm in model.healthy)


@pytest.mark.parametrize(
    ("norm", "said"),
    [(nn.BatchNorm1d, "update_bn"), (normexp.norms.BatchNorm, "recompute_population_statistics")],
)
def test_fix_of_a_gap_that_new_statistics_close(norm, said):
    model, batches = trained(mlp(norm(8), norm(8)))
    finding, _ = fixed("mode_gap", shifted(model), batches, samples=64)
    assert said in finding.fix


def test_statistics_that_were_estimated_anew_are_not_cold():
    model, batches = trained(mlp(), 2)
    assert check(model, batches, steps=5)["statistics_cold"].number == pytest.approx(0.9 ** (5 + 2))
    torch.optim.swa_utils.update_bn([x for x, _ in batches], model)
    assert int(model[1].num_batches_tracked) == 4
    assert "statistics_cold" in check(model, batches, steps=5).healthy


@pytest.mark.parametrize("samples", [2, 3, 4])
def test_fix_that_was_followed_is_not_printed_again(samples):
    """torch stores a variance over n - 1 and trains with one over n: estimating anew leaves a gap at small batches."""
    layers = [(nn.Linear(16, 16, bias=False), nn.BatchNorm1d(16), nn.Tanh()) for _ in range(6)]
    model = nn.Sequential(*sum(layers, ()), nn.Linear(16, 3))
    x = torch.randn(60 * samples, 16)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    batches = list(zip(x.split(samples), y.split(samples), strict=True))
    train(model, batches, 240, 0.2)
    torch.optim.swa_utils.update_bn([x for x, _ in batches], model)
    result = check(model, batches)
    if "mode_gap" in result:
        assert "update_bn" not in result["mode_gap"].fix
        assert "n - 1" in result["mode_gap"].sentence


def test_uneven_last_batch_is_left_out_of_the_fix():
    model, _ = trained(mlp())
    shifted(model)
    for count in (65, 64):
        x = torch.randn(count, 6)
        finding = check(model, DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 32))["mode_gap"]
        assert ("drop_last=True" in finding.fix) == (count == 65)


def test_promise_is_what_the_fix_gives():
    """The third loss, by `update_bn` itself: of each half of the batches with statistics of the other half."""
    model, batches = trained(mlp())
    result = check(shifted(model), batches, samples=64)
    batches, losses = [batches[-1], *batches[:-1]], []  # the last is held out
    for judged, others in ((batches[::2], batches[1::2]), (batches[1::2], batches[::2])):
        torch.optim.swa_utils.update_bn([x for x, _ in others], model)
        losses += [F.cross_entropy(model.eval()(x), y).item() for x, y in judged]
    assert f"anew from other batches it is {sum(losses) / 4:.4g} (mean of 4 b" in result["mode_gap"].sentence


def test_norm_behind_a_convolution_it_was_fused_into():
    model = cnn(classes=2)
    labels = [torch.randint(0, 2, (64,)) for _ in range(2)]
    batches = [(torch.randn(64, 3, 8, 8) + y.view(-1, 1, 1, 1), y) for y in labels]
    nn.init.uniform_(model[1].weight, 0.3, 2.0)
    nn.init.uniform_(model[1].bias, -1, 1)
    train(model, batches, 60)
    torch.optim.swa_utils.update_bn([x for x, _ in batches], model)
    twin = torch.nn.utils.fuse_conv_bn_eval(model[0].eval(), model[1].eval())
    model[0] = twin.train()
    model.train()[-1] = nn.Sequential(nn.LayerNorm(8), model[-1])
    finding, _ = fixed("mode_gap", model, batches, samples=64)
    assert "normalized already" in finding.sentence
    assert finding.layers == ("1",)


def test_norm_that_is_called_twice_on_different_inputs():
    def forward(net, x):
        h = net.a(x)
        return net.output(torch.cat([net.norm(h), net.norm(4 * h + 12)], -1).tanh())

    twice = Own(forward, a=nn.Linear(6, 8), norm=nn.BatchNorm1d(8), output=nn.Linear(16, 2))
    model, batches = trained(twice, 200)
    finding = check(model, batches, samples=64)["mode_gap"]
    assert "called several times" in finding.sentence
    h = model.a(batches[0][0])
    pooled = ((h.var(0, correction=0) + (4 * h).var(0, correction=0)) / 2).sqrt()
    apart = ((4 * h + 12).mean(0) - h.mean(0)) / pooled
    assert f"{apart.square().mean().sqrt().item():.2g} deviations" in finding.sentence


# Groups of a norm with so many channels, of 8 values or more each; None: no norm of single samples will do.
GROUPS = {1: None, 2: None, 3: 1, 5: 1, 8: 1, 16: 2, 24: 2, 64: 8}


@pytest.mark.parametrize("width", GROUPS)
@pytest.mark.parametrize("id", ["small_batch", "dropout_before_batchnorm", "batch_in_eval", "one_value"])
def test_norm_that_a_fix_proposes_has_enough_values_on_rows(id, width):
    tracks, n = id != "batch_in_eval", 5 if id == "small_batch" else 64
    norm = (
        nn.GroupNorm(width, width) if id == "one_value" else nn.BatchNorm1d(width, track_running_stats=tracks)
    )
    body = [nn.Linear(6, 64), nn.ReLU(), nn.Dropout(0.6 * (id[0] == "d")), nn.Linear(64, width), norm]
    model = nn.Sequential(*body, nn.ReLU(), nn.Linear(width, 3))
    finding = check(model, rows(n), samples=n)[id]
    assert ("swap" in finding.fix) == (GROUPS[width] is not None), finding.fix
    assert not finding.fix.startswith(("#", " "))
    if width > 2:
        _, after = fixed(id, model, rows(n), samples=n)
        assert "one_value" in after.healthy
        assert getattr(model[4], "num_groups", 1) == GROUPS[width]


def test_norms_of_single_samples_stay_where_a_fix_replaces_the_others():
    model = nn.Sequential(nn.Linear(6, 32), nn.LayerNorm(32), nn.Linear(32, 32), nn.BatchNorm1d(32))
    finding, _ = fixed("small_batch", model, rows(4))
    assert "swap(model, \"groupnorm\", where=['3'])" in finding.fix
    assert model[3].num_groups == 4
    assert type(model[1]) is nn.LayerNorm


def test_gap_of_one_batch_among_several_is_chance():
    """The last of nine batches alone is far from the running statistics."""
    model, batches = trained(mlp(), 150)
    torch.optim.swa_utils.update_bn([x for x, _ in batches], model)
    x, y = batches[0]
    few = [(x[8 * k : 8 * k + 8], y[8 * k : 8 * k + 8]) for k in range(8)]
    found = check(model, [*few, (few[0][0] + 0.6, few[0][1])])
    alone = check(model, (few[0][0] + 0.6, few[0][1]))
    assert "mode_gap" in alone
    assert "mode_gap" in found.healthy, str(found)
    moved = [(x + 2, y) for x, y in few]
    assert "mode_gap" in check(model, [*moved, few[0]])  # where the last alone has none, another one is asked
    assert "mode_gap" in check(shifted(model), few)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_gap_beside_batches_that_are_not_finite_or_cannot_train(value):
    model, batches = trained(mlp())
    x, y = batches[0]
    odd = [(torch.full_like(x, value), y), (x[:1], y[:1])]
    assert "mode_gap" in check(shifted(model), [batches[0], *odd, *batches[1:]], samples=64)
