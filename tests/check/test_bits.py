"""A check changes nothing: the network, its buffers, gradients, modes, hooks, random states, and what it trains to."""

import functools
import random
import warnings

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F
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


def data(n=40):
    made = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(n, 6, generator=made), torch.randint(0, 3, (n,), generator=made))


def everything(module):
    modes = [layer.training for layer in module.modules()]
    hooks = [len(layer._forward_hooks) + len(layer._forward_pre_hooks) for layer in module.modules()]
    grads = [None if p.grad is None else p.grad.clone() for p in module.parameters()]
    versions = [p._version for p in module.parameters()] + [b._version for b in module.buffers()]
    state = {name: value.clone() for name, value in module.state_dict().items()}
    return modes, hooks, grads, versions, state


@pytest.mark.parametrize("training", [True, False])
def test_nothing_of_network_or_random_state_changes(training):
    torch.manual_seed(0)
    module = Lit().train(training)
    x, y = data()[:8]
    F.cross_entropy(module.model(x), y).backward()
    optimizer = torch.optim.AdamW(module.parameters(), 1e-2)
    before = everything(module)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    result = check(
        module, DataLoader(data(), 8, shuffle=True), optimizer=optimizer, precision="16-mixed", accumulate=2, devices=2,
        averaged=module.state_dict(), state_dict=module.state_dict(),
    )  # fmt: skip
    assert len(result.healthy) + len(result.findings) > 12
    after = everything(module)
    assert before[:2] == after[:2]
    assert before[3] == after[3]
    for old, new in zip(before[2], after[2], strict=True):
        assert (old is None and new is None) or torch.equal(old, new)
    assert all(torch.equal(value, after[4][name]) for name, value in before[4].items())
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert (states[2] == np.random.get_state()[1]).all()
    assert module.losses == []


class Forgets(nn.Module):
    """InstanceNorm before a mean over pixels, or BatchNorm over positions: to look, check draws other inputs."""

    def __init__(self, tokens):
        super().__init__()
        self.first = nn.Embedding(11, 8) if tokens else nn.Conv2d(3, 8, 3)
        self.norm, self.output = nn.BatchNorm1d(8) if tokens else nn.InstanceNorm2d(8), nn.Linear(8, 11)

    def forward(self, x):
        x = self.first(x).cumsum(1)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2) if x.dim() == 3 else self.norm(x).mean((2, 3))
        return self.output(x)


@pytest.mark.parametrize("tokens", [True, False])
def test_random_states_stay_where_other_inputs_are_drawn(tokens):
    torch.manual_seed(0)
    x = torch.randint(0, 11, (8, 12)) if tokens else torch.randn(8, 3, 8, 8)
    model, y = Forgets(tokens), x if tokens else torch.randint(0, 11, (8,))
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    result = check(model, (x, y))
    assert ("sees_future" if tokens else "ignores_input") in result
    assert torch.equal(states[0], torch.get_rng_state())
    assert states[1] == random.getstate()
    assert (states[2] == np.random.get_state()[1]).all()


def test_random_states_stay_with_causal_attention():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    layer.forward = functools.partial(layer.forward, is_causal=True, src_mask=torch.ones(5, 5).triu(1).bool())
    x = torch.randn(6, 5, 8)
    state = torch.get_rng_state()
    assert "sees_future" in check(layer, x).healthy
    assert torch.equal(state, torch.get_rng_state())


def test_own_loop_keeps_its_bits_where_other_inputs_are_drawn():
    def trained(*monitors):
        torch.manual_seed(0)
        model = nn.Sequential(Forgets(tokens=False), nn.Dropout(0.5), nn.Linear(11, 3))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        batch = torch.randn(8, 3, 8, 8), torch.randint(0, 3, (8,))
        with normexp.watch(model, loss=F.cross_entropy, monitors=list(monitors)) as watched:
            for x, y in watched.over([batch] * 3):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                watched.step(loss)
        return torch.cat([p.flatten() for p in model.parameters()])

    callback = CheckNorms()
    assert torch.equal(trained(), trained(callback))
    assert "ignores_input" in callback.result


def fit(callbacks, folder, norm=nn.BatchNorm1d, loader=None, **options):
    pl.seed_everything(0, verbose=False)
    module = Lit(norm)
    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", callbacks=callbacks, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder, **options,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Lightning: few workers, no validation
        trainer.fit(module, loader or DataLoader(data(), 8, shuffle=True))
    return module


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


def test_strict_callback_stops(tmp_path):
    with pytest.raises(ValueError, match=r"Lit: .* warning"):
        fit([CheckNorms(strict=True)], tmp_path)
    assert len(fit([CheckNorms(strict=True)], tmp_path, nn.LayerNorm).losses) == 10


@pytest.mark.parametrize("target", [True, False])
def test_loop_is_checked_once_and_keeps_its_bits(target):
    def looped(callback):
        torch.manual_seed(0)
        model = Lit().model
        optimizer, loader = torch.optim.SGD(model.parameters(), 0.1), DataLoader(data(), 8, shuffle=True)
        with normexp.watch(model, monitors=[callback, Gradients(every_n_steps=2)]) as w:
            for x, y in w.over(loader) if target else loader:
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
        assert len(w.recorded["gradient_norm/network"]) == 3
        return model.state_dict()

    alone, callback = looped(pl.Callback()), CheckNorms(steps=5, devices=2)
    assert all(map(torch.equal, alone.values(), looped(callback).values()))
    assert "some training" in callback.result.not_checked["statistics_unused"]  # before the first batch
    assert callback.result["small_batch"].number == 8
    assert ("cross-entropy" if target else "random sum") in callback.result.facts[0]
    with pytest.raises(ValueError, match="warning"):
        looped(CheckNorms(strict=True, steps=5))


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


def test_weights_that_a_forward_writes_stay():
    torch.manual_seed(0)
    module, tokens = Writes(), torch.randint(0, 11, (4, 7))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert len(check(module, (tokens, tokens)).healthy) > 12
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
