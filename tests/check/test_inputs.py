"""What people pass as a network and as a batch: each is used whole or cut, and what cannot be done with it is said."""

import pytest
import torch
from small_networks import Lit, Own, WideRMSNorm, around, fit, found, mlp, rows
from torch import nn
from torch.nn import functional as F

from normexp.check import CheckNorms
from normexp.check.run import check
from normexp.monitors.batches import rows_of, size_of


class Graph:
    """A batch of nodes, as libraries for graphs have it: a class, with or without a method that moves it."""

    def __init__(self, moves=False):
        self.x = torch.randn(16, 6)
        if moves:
            self.to = lambda device: self

    def __iter__(self):
        yield "x", self.x


@pytest.mark.parametrize("kind", [torch.float16, torch.float64])
def test_batch_of_another_type_is_said(kind):
    model = around(nn.LayerNorm(8)).to(kind)
    result = check(model, rows())
    assert sum("float32 of the batches is" in fact for fact in result.facts) == 1
    assert not any("of the batches is" in fact for fact in check(model, rows()[0].to(kind)).facts)
    assert not any("of the batches is" in fact for fact in check(model).facts)  # made up
    rounded = check(around(nn.LayerNorm(8)).half(), rows()[0].to(kind)).facts
    assert sum("float64 of the batches is rounded" in fact for fact in rounded) == (kind == torch.float64)


def test_one_word_stands_for_itself():
    result = check(around(nn.BatchNorm1d(8)), rows(4), select="small_batch")
    assert [finding.id for finding in result.findings] == ["small_batch"]
    assert not result.healthy
    assert "small_batch" not in check(around(nn.BatchNorm1d(8)), rows(4), ignore="small_batch@1")


def first(batch):
    return batch[0]


def stacked(batch):
    return torch.stack([x for x, _ in batch])


def joined(batch):
    return torch.cat(batch[0])


def nodes(batch):
    return batch.x


PAIRS = [(torch.randn(6), torch.tensor(1)) for _ in range(5)]
ALIKE = ([torch.randn(3, 6) for _ in range(9)], [{"label": torch.tensor([1])} for _ in range(9)])
IMAGES = ([torch.randn(7, 6), torch.randn(4, 6)], [{"boxes": torch.ones(2, 4)}, {"boxes": torch.ones(3, 4)}])
UNCOUNTED = {
    "class": ([Graph()], nodes),
    "class that moves": (Graph(moves=True), nodes),
    "pairs": ([PAIRS], stacked),
    "images and targets": ([IMAGES], joined),
    "images of one size": ([ALIKE], joined),
    "tensors that disagree": ([(torch.randn(40, 6), torch.randn(2, 90))], first),
}


@pytest.mark.parametrize("case", UNCOUNTED)
def test_batch_without_a_count_is_used_whole(case):
    loader, read = UNCOUNTED[case]
    result = check(Lit(around(nn.BatchNorm1d(8)), read), loader)
    assert "pass_fails" in result.healthy
    assert "cannot be counted" in result.not_checked["small_batch"]
    assert "uncounted samples" in result.facts[0]


def test_batch_is_cut_where_its_tensors_agree():
    batch = {"x": torch.randn(40, 6), "one": torch.ones(1, 3), "number": torch.tensor(2.0)}
    assert size_of(batch) == 40
    cut = {name: tuple(x.shape) for name, x in rows_of(batch, 0, 8).items()}
    assert cut == {"x": (8, 6), "one": (1, 3), "number": ()}
    assert size_of((torch.randn(40, 6), torch.randn(5))) is None


def test_cut_batch_that_fails_is_tried_whole():
    network = Lit(around(nn.BatchNorm1d(8)), lambda batch: batch.unflatten(0, (40, -1)).flatten(0, 1))
    result = check(network, torch.randn(80, 6), samples=33)
    assert "pass_fails" in result.healthy
    assert "80 samples a pass" in result.facts[0]
    assert "not cut" in result.facts[1]
    assert "pass_fails" in check(network, torch.randn(81, 6), samples=33)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.output = nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x, y):
        return self.output(self.norm(self.linear(x) + self.linear(y)))


def test_two_inputs_and_a_dictionary_as_one():
    x, y, labels = torch.randn(8, 6), torch.randn(8, 6), torch.randint(0, 3, (8,))
    assert "random sum" in check(Two(), (x, y)).facts[0]
    for batch in ((x, y, labels), ((x, y), labels)):
        assert "cross-entropy" in check(Two(), batch).facts[0]
    named = Own(lambda net, batch: net.two(batch["x"], batch["y"]), two=Two())
    assert "pass_fails" in check(named, {"x": x, "y": y}).healthy
    fix = check(Two(), x)["pass_fails"].fix
    assert "LightningModule" in fix
    assert "training_step" in fix


def test_batch_that_a_network_does_not_take_is_named():
    x, y = rows()
    takes = Own(lambda net, x: net.net(x), net=mlp(nn.LayerNorm(8)))
    assert "labels" not in str(check(takes, {"x": x, "labels": y}))
    finding = check(takes, {"x": x, "y": y})["pass_fails"]
    assert "a dict of x, y" in finding.sentence
    assert "takes: x" in finding.fix


class Detects(nn.Module):
    """Takes lists of images and of targets, and gives its losses while it trains."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 8), nn.LayerNorm(8)

    def forward(self, images, targets=None):
        y = self.norm(self.linear(torch.cat(images)))
        if not self.training:
            return [{"score": y}]
        return {"first": y[:, targets[0]["label"]].sum(), "second": y[:, 3].mean()}


class Required(Detects):
    def forward(self, images, targets):
        return super().forward(images, targets)


class OneLoss(Two):
    def forward(self, x, y=None):
        output = self.output(self.norm(self.linear(x)))
        return F.cross_entropy(output, y) if self.training else output


@pytest.mark.parametrize("network", [Detects, Required, OneLoss])
def test_targets_go_to_a_network_that_cannot_train_without_them(network):
    batch = (torch.randn(8, 6), torch.arange(8) % 3) if network is OneLoss else ALIKE
    result = check(network(), batch)
    assert {"pass_fails", "nothing_learns"} <= {*result.healthy}
    assert result.name == network.__name__
    assert ("the losses that the network returns" in result.facts[0]) == (network is not OneLoss)


def test_a_training_step_that_needs_batches_of_its_own_asks_for_them():
    module = Lit(around(nn.BatchNorm1d(8)), first)
    with pytest.raises(ValueError, match=r"random inputs are no batch of its training_step .*; pass data"):
        check(module)
    assert "pass_fails" in check(module, (torch.randn(9, 6), torch.ones(9))).healthy


def test_mixed_precision_runs_in_autocast():
    """A network of bfloat16 with gains of float32, as quantized adapters leave it, trains only in autocast."""
    network = around(WideRMSNorm(8, wide=True)).bfloat16()
    network[1].float()
    with pytest.raises(RuntimeError, match="dtype"):
        network(rows()[0].bfloat16())
    assert "pass_fails" in check(network, rows(), precision="bf16-mixed").healthy
    assert "pass_fails" in check(network, rows(), precision="bf16-true")


class CenteredNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(512)), 1e-5

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_rounding_behind_a_mean_is_no_overflow(precision):
    x = torch.randn(8, 64, 512) + 3
    assert (CenteredNorm()(x.bfloat16()) == 0).any()
    assert (CenteredNorm()(x) == 0).sum() == 0
    for norm, inputs in ((CenteredNorm(), x), (nn.InstanceNorm1d(64), torch.randn(8, 64, 4000) + 3)):
        network = nn.Sequential(nn.Identity(), norm, nn.Linear(inputs.shape[-1], 3))
        assert "overflow" in check(network, inputs, precision=precision).healthy


class Manual(Lit):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(super().training_step(batch, index))
        optimizer.step()


class Skips(Lit):
    def training_step(self, batch, index):
        return super().training_step(batch, index) if index else None


class Slopes(Lit):
    """Takes gradients inside, in each mode."""

    def training_step(self, batch, index):
        with torch.enable_grad():
            x = batch.requires_grad_()
            (g,) = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)
        return g.square().mean() + super().training_step(batch, index)


class Raises(Lit):
    """Works only in a trainer, in training mode, for whole batches."""

    def training_step(self, batch, index):
        assert self.trainer.global_step >= 0
        assert self.net.training
        assert len(batch) == 40
        return super().training_step(batch, index)


ODD = {  # (module, what it reads of a batch, batch)
    "manual": (Manual, torch.clone, torch.randn(40, 6)),
    "skips": (Skips, torch.clone, torch.randn(40, 6)),
    "slopes": (Slopes, torch.clone, torch.randn(40, 6)),
    "raises": (Raises, torch.clone, torch.randn(40, 6)),
    "class": (Lit, nodes, Graph(moves=True)),
    "pairs": (Lit, stacked, PAIRS),
    "no norm": (Lit, torch.clone, torch.randn(40, 6)),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.filterwarnings("ignore")  # of Lightning
def test_callback_ends_no_training_and_keeps_its_bits(odd, tmp_path, caplog):
    kind, read, batch = ODD[odd]

    def trained(*callbacks):
        torch.manual_seed(1)
        module = kind(around(nn.Identity() if odd == "no norm" else nn.BatchNorm1d(8)), read)
        loader = torch.utils.data.DataLoader([batch] * 4, batch_size=None)
        return fit(module, list(callbacks), loader, tmp_path, max_steps=4).state_dict()

    with caplog.at_level("INFO", logger="pytorch_lightning.utilities.rank_zero"):
        assert all(map(torch.equal, trained().values(), trained(CheckNorms()).values()))
    messages = [record.getMessage() for record in caplog.records]
    told = [text for text in messages if "CheckNorms" in text or "healthy" in text]
    assert len(told) == 1
    if odd in ("manual", "no norm"):
        assert "the training goes on" in told[0]
        with pytest.raises(ValueError, match="module"):
            trained(CheckNorms(strict=True))


def test_loss_of_a_step_that_skips_is_not_called_a_failure():
    result = check(Skips(around(nn.BatchNorm1d(8))), torch.randn(8, 6))
    assert "pass_fails" not in result
    assert "no loss for this batch" in result.not_checked["eps"]
    assert "no loss" in result.not_checked["pass_fails"]


def test_finding_whose_pass_fails_is_not_checked():
    def forward(net, x):
        assert net.training, "trains only"
        return net.norm(net.linear(x))

    (x, y), network = rows(), Own(forward, linear=nn.Linear(6, 3), norm=nn.BatchNorm1d(3))
    network(x)
    result = check(network, (x, y), loss=F.cross_entropy)
    assert "trains only" in result.not_checked["mode_gap"]
    assert found("small_batch", result, check(network, (x[:4], y[:4]))).number == 4


def test_batch_of_which_no_samples_can_be_taken_is_used_whole():
    rows, weight = torch.randn(4, 6), nn.Parameter(torch.randn(6, 8))
    multiplies = Own(
        lambda net, x: net.norm(torch.sparse.mm(x, net.weight)), weight=weight, norm=nn.BatchNorm1d(8)
    )
    sparse = check(multiplies, rows.relu().to_sparse())
    assert "cannot be counted" in sparse.not_checked["small_batch"]
    assert "not_finite" in sparse.healthy
    means = Own(
        lambda net, x: torch.stack([part.mean(0) for part in net.norm(x).unbind()]), norm=nn.LayerNorm(6)
    )
    nested = check(means, torch.nested.nested_tensor(list(rows.split((1, 3))), layout=torch.jagged))
    assert "norm gets a nested tensor" in nested.not_checked["not_finite"]
