"""A check changes nothing: the network, its buffers, gradients, modes, hooks, random states, and what it trains to."""

import functools
import random
import warnings

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from small_networks import around, images, rows, tokens
from small_networks import fit as trained
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import normexp
from normexp.check import CheckNorms
from normexp.check.run import check
from normexp.monitors import Gradients


class Lit(pl.LightningModule):
    def __init__(self, norm=nn.BatchNorm1d):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(6, 8), norm(8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 3))
        self.losses, self.rate = [], 1e-2 if norm is nn.BatchNorm1d else 1e-3

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.log("train_loss", loss)
        self.losses.append(float(loss.detach()))
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), self.rate)


class Forgets(nn.Module):
    """InstanceNorm before a mean over pixels, or BatchNorm over positions: to look, check draws other inputs."""

    def __init__(self, of_tokens):
        super().__init__()
        self.first = nn.Embedding(11, 8) if of_tokens else nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm1d(8) if of_tokens else nn.InstanceNorm2d(8)
        self.output = nn.Linear(8, 11)

    def forward(self, x):
        x = self.first(x).cumsum(1)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2) if x.dim() == 3 else self.norm(x).mean((2, 3))
        return self.output(x)


class Writes(nn.Module):
    """Writes into its weights in each forward, as codebooks do."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(11, 8, max_norm=0.5), nn.LayerNorm(8)
        self.code, self.linear = nn.Parameter(torch.ones(8)), nn.Linear(8, 11)

    def forward(self, tokens):
        self.norm.weight.data.mul_(0.999)
        self.code.data.add_(0.1)
        return self.linear(self.norm(self.table(tokens).cumsum(1)) * self.code)


class Checkpointed(nn.Module):
    """A reentrant checkpoint that begins a network gives gradients by `backward` alone."""

    def __init__(self, reentrant):
        super().__init__()
        self.body, self.output, self.reentrant = around(nn.BatchNorm1d(8)), nn.Linear(3, 3), reentrant

    def forward(self, x):
        return self.output(checkpoint(self.body, x.requires_grad_(), use_reentrant=self.reentrant))


def data(n=40):
    made = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(n, 6, generator=made), torch.randint(0, 3, (n,), generator=made))


def with_all_options(training):
    module = Lit().train(training)
    state = module.state_dict()
    optimizer = torch.optim.AdamW(module.parameters(), 1e-2)
    options = {"precision": "16-mixed", "accumulate": 2, "devices": 2, "averaged": state, "state_dict": state}
    return "small_batch", module, DataLoader(data(), 8, shuffle=True), {"optimizer": optimizer, **options}


def attends():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    mask = torch.ones(5, 5).triu(1).bool()
    layer.forward = functools.partial(layer.forward, is_causal=True, src_mask=mask)
    return "sees_future", layer, torch.randn(6, 5, 8), {}


def checkpointed(reentrant):
    return "nothing_learns", Checkpointed(reentrant), rows(), {"loss": F.cross_entropy}


# (a finding that is asked, network, data, options)
NETWORKS = {
    "all options": lambda: with_all_options(True),
    "all options, in eval mode": lambda: with_all_options(False),
    "other tokens": lambda: ("sees_future", Forgets(True), tokens(), {}),
    "other images": lambda: ("ignores_input", Forgets(False), images(), {}),
    "attention": attends,
    "written weights": lambda: ("eps", Writes(), tokens(), {}),
    "checkpoint": lambda: checkpointed(False),
    "reentrant checkpoint": lambda: checkpointed(True),
}


def state_of(module):
    layers, parameters = list(module.modules()), list(module.parameters())
    return {
        "modes": [layer.training for layer in layers],
        "hooks": [len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in layers],
        "gradients": [None if p.grad is None else p.grad.tolist() for p in parameters],
        "versions": [value._version for value in [*parameters, *module.buffers()]],
        "values": {name: value.tolist() for name, value in module.state_dict().items()},
        "random": (torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()),
    }


@pytest.mark.parametrize("case", NETWORKS)
def test_nothing_of_network_or_random_state_changes(case):
    id, module, batches, options = NETWORKS[case]()
    for p in list(module.parameters())[::2]:
        p.grad = torch.ones_like(p)
    before = state_of(module)
    result = check(module, batches, **options)
    assert id in result or id in result.healthy, str(result)
    assert len(result.healthy) + len(result.findings) > 12
    after = state_of(module)
    if case == "written weights":  # the forward's own writes count
        del before["versions"]
    for part, value in before.items():
        assert after[part] == value, part
    assert getattr(module, "losses", []) == []


def fit(callbacks, folder, norm=nn.BatchNorm1d, loader=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Lightning: few workers, no validation
        pl.seed_everything(0, verbose=False)
        loader = loader or DataLoader(data(), 8, shuffle=True)
        return trained(Lit(norm), callbacks, loader, folder, max_epochs=2, **options)


def test_callback_says_what_it_found_and_the_training_keeps_its_bits(tmp_path, caplog):
    alone = fit([], tmp_path)
    callback = CheckNorms()
    with caplog.at_level("INFO", logger="pytorch_lightning.utilities.rank_zero"):
        watched = fit([callback], tmp_path)
    assert alone.losses == watched.losses
    assert all(map(torch.equal, alone.state_dict().values(), watched.state_dict().values()))
    assert str(callback.result) in [record.getMessage() for record in caplog.records]
    assert "statistics_cold" in callback.result  # five batches an epoch leave 0.9 ** 5 of the start
    assert "decay_on_norms" in callback.result


def test_callback_sees_the_last_batch_before_the_training_does(tmp_path):
    rows = data(17)  # two batches of 8, and one sample
    callback = CheckNorms()
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        fit([callback], tmp_path, loader=DataLoader(rows, 8))
    assert callback.result["last_batch_of_one"].severity == "error"
    fit([callback := CheckNorms()], tmp_path, loader=DataLoader(rows, 8, drop_last=True))
    assert "last_batch_of_one" in callback.result.healthy
    fit([callback := CheckNorms()], tmp_path, loader=DataLoader(rows, 8), limit_train_batches=2)
    assert "last_batch_of_one" in callback.result.not_checked


def test_strict_callback_stops_unless_a_rule_says_otherwise(tmp_path):
    with pytest.raises(ValueError, match=r"Lit: .* warning"):
        fit([CheckNorms(strict=True)], tmp_path)
    assert len(fit([CheckNorms(strict=True)], tmp_path, nn.LayerNorm).losses) == 10
    callback = CheckNorms(strict=True, ignore=["small_batch@model.*"], select=["small_batch", "eps"])
    fit([callback], tmp_path)
    assert [finding.id for finding in callback.result.ignored] == ["small_batch"]


def looped(callback, model, data, *, shows_targets, **options):
    """The weights after a loop of one's own."""
    torch.manual_seed(0)
    model, loader = model(), DataLoader(data, 8, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    gradients = Gradients(every_n_steps=2)
    with normexp.watch(model, monitors=[callback, gradients], **options) as watched:
        for x, y in watched.over(loader) if shows_targets else loader:
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert len(watched.recorded["gradient_norm/network"]) == 3
    return model.state_dict()


@pytest.mark.parametrize("shows_targets", [True, False])
def test_loop_is_checked_once_and_keeps_its_bits(shows_targets):
    def made(callback):
        return looped(callback, lambda: Lit().model, data(), shows_targets=shows_targets)

    alone, callback = made(pl.Callback()), CheckNorms(steps=5, devices=2)
    assert all(map(torch.equal, alone.values(), made(callback).values()))
    assert "some training" in callback.result.not_checked["statistics_unused"]  # before the first batch
    assert callback.result["small_batch"].number == 8
    assert ("cross-entropy" if shows_targets else "random sum") in callback.result.facts[0]
    with pytest.raises(ValueError, match="warning"):
        made(CheckNorms(strict=True, steps=5))


def test_loop_keeps_its_bits_where_other_inputs_are_drawn():
    torch.manual_seed(0)
    pixels = TensorDataset(*images(24))

    def model():
        return nn.Sequential(Forgets(False), nn.Dropout(0.5), nn.Linear(11, 3))

    def made(callback):
        return looped(callback, model, pixels, shows_targets=True, loss=F.cross_entropy)

    alone, callback = made(pl.Callback()), CheckNorms()
    assert all(map(torch.equal, alone.values(), made(callback).values()))
    assert "ignores_input" in callback.result
