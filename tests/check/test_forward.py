"""Faults of the forward pass, planted in small networks, each beside a healthy twin that stays silent."""

import copy

import pytest
import torch
from small_networks import HandRMS, cnn, found, images, rows
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from normexp.check.run import check


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def body(*norms):
    return nn.Sequential(nn.Linear(6, 8), *norms, nn.ReLU(), nn.Linear(8, 3))


def pooled(norm, *between):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), norm, *between, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3)
    )


@pytest.mark.parametrize("norm", [nn.InstanceNorm2d(8, affine=True), nn.GroupNorm(8, 8)])
def test_output_that_does_not_depend_on_the_input(norm):
    data, blind = images(), pooled(norm)
    healthy = check(pooled(copy.deepcopy(norm), nn.ReLU()), data)
    finding = found("input_ignored", healthy, check(blind, data))
    assert (finding.severity, finding.layers) == ("error", ("1",))
    assert torch.allclose(blind(data[0]), blind(torch.randn(16, 3, 8, 8)), atol=1e-5)


def test_head_of_zeros_sees_its_input():
    model = pooled(nn.BatchNorm2d(8))
    nn.init.zeros_(model[-1].weight)
    assert "input_ignored" in check(model, images()).healthy


class AlwaysTrains(nn.BatchNorm1d):
    def forward(self, x):
        return super(type(self), self.train()).forward(x)


class Batchwise(nn.Module):
    def __init__(self, always):
        super().__init__()
        self.linear, self.output, self.always = nn.Linear(6, 8), nn.Linear(8, 3), always
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("var", torch.ones(8))

    def forward(self, x):
        x = F.batch_norm(self.linear(x), self.mean, self.var, training=self.always or self.training)
        return self.output(x)


@pytest.mark.parametrize(
    ("right", "wrong", "path"),
    [
        (body(nn.BatchNorm1d(8)), body(nn.BatchNorm1d(8, track_running_stats=False)), "1"),
        (Batchwise(False), Batchwise(True), "batch_norm()"),
        (body(nn.BatchNorm1d(8)), body(AlwaysTrains(8)), "1"),
    ],
)
def test_prediction_depends_on_the_rest_of_the_batch(right, wrong, path):
    (x, y), healthy = rows(), check(right, rows())
    finding = found("batch_in_eval", healthy, check(wrong, (x, y)))
    assert finding.layers == (path,)
    wrong.eval()
    chosen = [i % 16 for i in range(32)]
    one, other = wrong(x)[:16].detach().double(), wrong(x[chosen])[:16].detach().double()
    assert finding.number == pytest.approx(float((one - other).norm() / one.norm()), rel=1e-4)


class Silenced(nn.Module):
    def __init__(self, how, norm=nn.LayerNorm):
        super().__init__()
        self.linear, self.norm, self.output, self.how = nn.Linear(6, 8), norm(8), nn.Linear(8, 3), how

    def forward(self, x):
        with torch.set_grad_enabled(self.how != "no_grad"):
            x = self.norm(self.linear(x))
        return self.output(x.detach() if self.how == "detach" else x)


def test_forward_without_gradients():
    healthy = check(Silenced(""), rows(), loss=F.cross_entropy)
    for how in ("no_grad", "detach"):
        finding = found("nothing_learns", healthy, check(Silenced(how), rows(), loss=F.cross_entropy))
        assert finding.layers == ("norm",)
        assert "4 trained tensors" in finding.sentence
    frozen = Silenced("no_grad")
    frozen.linear.requires_grad_(False)
    frozen.norm.requires_grad_(False)
    assert "nothing_learns" in check(frozen, rows()).healthy


def test_optimizer_without_the_norms():
    model = body(nn.LayerNorm(8))
    every, some = (torch.optim.SGD(p, 0.1) for p in (model.parameters(), [model[0].weight]))
    healthy = check(model, rows(), optimizer=every)
    finding = found("not_optimized", healthy, check(model, rows(), optimizer=some))
    assert finding.layers == ("1.weight", "1.bias")
    exec(finding.fix, {"model": model, "optimizer": some})
    assert "not_optimized" in check(model, rows(), optimizer=some).healthy


class Tokens(nn.Module):
    def __init__(self, turned, norm=nn.BatchNorm1d):
        super().__init__()
        self.embedding, self.norm, self.output = nn.Embedding(11, 8), norm(8), nn.Linear(8, 11)
        self.turned = turned

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.output(self.norm(x.mT).mT if self.turned else self.norm(x))


def test_batchnorm_over_tokens_as_many_as_channels():
    tokens = torch.randint(0, 11, (16, 8))
    finding = found(
        "tokens_as_channels", check(Tokens(True), (tokens, tokens)), check(Tokens(False), (tokens, tokens))
    )
    assert finding.number == 8
    with pytest.raises(RuntimeError):
        Tokens(False)(tokens[:, :7])
    assert "tokens_as_channels" in check(Tokens(False, nn.LayerNorm), (tokens, tokens)).healthy
    signal = nn.Sequential(nn.Conv1d(4, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    assert "tokens_as_channels" in check(signal, torch.randn(16, 4, 8)).healthy


@pytest.mark.parametrize("norm", [nn.BatchNorm1d, nn.LayerNorm])
def test_two_norms_in_a_row(norm):
    healthy = check(body(norm(8), nn.Tanh(), norm(8)), rows())
    finding = found("twice_in_a_row", healthy, check(body(norm(8), norm(8)), rows()))
    assert (finding.layers, finding.severity) == (("2",), "note")

    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.linear = norm(6), norm(6), nn.Linear(6, 3)

        def forward(self, x):
            return self.linear(self.b(F.relu_(self.a(x))))

    assert "twice_in_a_row" in check(InPlace(), rows()).healthy


class Idle(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.first, self.norm, self.query, self.output, self.how = (
            nn.Linear(6, 8), nn.LayerNorm(8), nn.LayerNorm(8), nn.Linear(8, 3), how,
        )  # fmt: skip

    def forward(self, x):
        x = self.norm(self.first(x))
        if self.how == "called" or (self.how == "in eval" and not self.training):
            x = self.query(x + 1)
        if self.how == "by its weights":
            x = F.layer_norm(x + 1, (8,), self.query.weight, self.query.bias)
        return self.output(x)


def test_norm_that_is_never_called():
    for how in ("called", "in eval", "by its weights"):
        finding = found("never_called", check(Idle(how), rows()), check(Idle("never"), rows()))
    assert finding.layers == ("query",)


class Checkpointed(nn.Module):
    def __init__(self, reentrant, norm=nn.BatchNorm1d):
        super().__init__()
        self.first, self.norm, self.output = nn.Linear(6, 8), norm(8), nn.Linear(8, 3)
        self.reentrant = reentrant

    def block(self, x):
        return F.relu(self.norm(x))

    def forward(self, x):
        x = self.first(x)
        if self.reentrant is None:
            return self.output(self.block(x))
        return self.output(checkpoint(self.block, x, use_reentrant=self.reentrant))


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_statistics_move_twice(reentrant):
    """fairscale 1035. A gradient that is there stays."""
    x, y = rows()
    model = Checkpointed(reentrant)
    before = copy.deepcopy(model.state_dict())
    kept = model.first.weight.grad = torch.ones_like(model.first.weight)
    found("moves_twice", check(Checkpointed(None), (x, y)), check(model, (x, y)))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(model.first.weight.grad, torch.ones_like(kept))
    assert all(p.grad is None for p in model.parameters() if p is not model.first.weight)
    F.cross_entropy(model(x), y).backward()
    assert int(model.norm.num_batches_tracked) == 2
    once = model.first(x).detach().mean(0)
    assert torch.allclose(model.norm.running_mean, (1 - 0.9**2) * once, atol=1e-5)
    assert "moves_twice" in check(Checkpointed(reentrant, nn.LayerNorm), (x, y)).healthy


class Second(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.body, self.output = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU()), nn.Linear(8, 3)
        self.how = how

    def forward(self, x):
        if self.how == "checkpoint":  # nothing before it gets a gradient
            return self.output(checkpoint(self.body, x.requires_grad_(), use_reentrant=True))
        self.body.train(self.training and self.how == "train")
        with torch.no_grad():
            weights = self.output(self.body(x)).softmax(-1).amax(-1, keepdim=True)
        self.body.train(self.training)
        return weights * self.output(self.body(x))


def test_second_pass_without_gradients_moves_statistics():
    finding = found("moves_twice", check(Second("eval"), rows()), check(Second("train"), rows()))
    assert (finding.layers, finding.number, finding.severity) == (("body.1",), 2, "note")
    model, (x, y) = Second("train"), rows()
    F.cross_entropy(model(x), y).backward()
    assert int(model.body[1].num_batches_tracked) == 2


def test_reentrant_checkpoint_that_begins_a_network_learns():
    result = check(Second("checkpoint"), rows())
    assert result["moves_twice"].severity == "warning"
    assert "nothing_learns" in result.healthy


def test_weight_normalization_before_batchnorm():
    model = body(nn.BatchNorm1d(8))
    weighted = copy.deepcopy(model)
    nn.utils.parametrizations.weight_norm(weighted[0])
    finding = found("scale_cancelled", check(model, rows()), check(weighted, rows()))
    assert (finding.layers, finding.severity) == (("1",), "note")
    exec(finding.fix, {"torch": torch, "model": weighted})
    assert "scale_cancelled" in check(weighted, rows()).healthy


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gains_in_half_precision_stay(dtype):
    """flame 47, flash-linear-attention 676: after epochs in pure bfloat16 every gain is exactly 1."""
    moved = {}
    for start in (0, 1):
        model = body(HandRMS(8, start=start)).to(dtype)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.0)
        result = check(model, rows(), optimizer=optimizer)
        for _ in range(50):
            x, y = rows()
            F.cross_entropy(model(x.to(dtype)).float(), y).backward()
            optimizer.step()
            optimizer.zero_grad()
        moved[start] = int((model[1].weight != start).sum())
        assert ("gains_stuck" in result) == (moved[start] == 0)
    assert moved == {0: 8, 1: 0 if dtype == torch.bfloat16 else 8}
    wide = body(nn.LayerNorm(8))
    rate = torch.optim.AdamW(wide.parameters(), 1e-3)
    assert "gains_stuck" in check(wide, rows(), optimizer=rate, precision="bf16-mixed").healthy
    assert "gains_stuck" in check(wide, rows(), optimizer=rate, precision="bf16-true")


def test_negative_running_variance_is_called_that():
    model = body(nn.BatchNorm1d(8))
    model[1].running_var[2] = -1
    finding = found("not_finite", check(body(nn.BatchNorm1d(8)), rows()), check(model, rows()))
    assert "variance below 0" in finding.sentence


def test_momentum_above_one_gets_a_momentum():
    model = body(nn.BatchNorm1d(8, momentum=2.0), nn.BatchNorm1d(8))
    finding = check(model, rows())["converted"]
    exec(finding.fix, {"model": model})
    assert (model[1].momentum, model[2].momentum) == (0.1, 0.1)


def test_fix_leaves_healthy_norms_alone():
    model = body(nn.BatchNorm1d(8, momentum=0.05), nn.Tanh(), nn.BatchNorm1d(8, momentum=0.01))
    finding = check(model, rows(), steps=60)["statistics_cold"]
    assert finding.layers == ("3",)
    exec(finding.fix, {"model": model})
    assert model[1].momentum == 0.05
    assert model[3].momentum > 0.04


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.jit.script(cnn()), "is compiled TorchScript; pass the network"),
        (lambda: torch.jit.trace(cnn().eval(), torch.randn(4, 3, 8, 8)), "is compiled TorchScript"),
        (lambda: cnn().to("meta"), r"has weights without memory \(meta\)"),
        (lambda: nn.Sequential(nn.LazyLinear(3), nn.BatchNorm1d(3)), "lazy layers without weights"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_checked_is_one_line(make, message):
    network = make()
    with pytest.raises(ValueError, match=message) as caught:
        check(network, images())
    assert "\n" not in str(caught.value)
