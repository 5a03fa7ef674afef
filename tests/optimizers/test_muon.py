"""Muon is torch's on matrices and AdamW on the rest, and continues from a checkpoint as if nothing had happened."""

import copy
import io

import pytest
import torch
from refusals import refused
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from normexp.optimizers import Muon, orthogonalized


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5), nn.LayerNorm(5))


def loss_of(model, step):
    generator = torch.Generator().manual_seed(step)
    return model(torch.randn(16, 6, generator=generator)).square().mean() + model[0].weight.sum() / 10


def train(model, optimizers, steps, schedules=()):
    for step in steps:
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss_of(model, step).backward()
        for part in (*optimizers, *schedules):
            part.step()


SCALES = [
    ({}, {"adjust_lr_fn": "match_rms_adamw"}), ({"scale": "original", "nesterov": False}, {"nesterov": False}),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs"), SCALES, ids=["match_rms_adamw", "original"])
def test_steps_are_those_of_torchs_muon_and_adamw_bit_for_bit(ours, theirs):
    model, twin = network(), network()
    optimizer = Muon(model.parameters(), lr=0.02, weight_decay=0.1, fused=True, **ours)
    matrices = [p for p in twin.parameters() if p.dim() == 2]
    others = [p for p in twin.parameters() if p.dim() < 2]
    options = {"lr": 0.02, "weight_decay": 0.1}
    twins = [
        torch.optim.Muon(matrices, **options, **theirs),
        torch.optim.AdamW(others, **options, fused=True),
    ]
    train(model, [optimizer], range(5))
    train(twin, twins, range(5))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_filters_are_the_matrix_of_their_rows():
    filters = nn.Parameter(torch.randn(8, 3, 2, 2, generator=torch.Generator().manual_seed(0)))
    rows = nn.Parameter(filters.detach().flatten(1).clone())
    gradient = torch.randn(8, 3, 2, 2, generator=torch.Generator().manual_seed(1))
    filters.grad, rows.grad = gradient.contiguous(memory_format=torch.channels_last), gradient.flatten(1)
    for parameter in (filters, rows):
        Muon([parameter]).step()
    assert torch.equal(filters.flatten(1), rows)


@pytest.mark.parametrize("precision", ["bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(8, 24), (24, 8), (8, 8)])
def test_singular_values_come_near_one_and_directions_stay(shape, precision):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    found = orthogonalized(matrix, 5, precision)
    assert found.dtype == getattr(torch, precision)
    turned = u.T @ found.float() @ v.T
    assert ((turned.diagonal() > 0.6) & (turned.diagonal() < 1.25)).all()
    exact = 0.05 if precision == "bfloat16" else 1e-5
    assert (turned - turned.diagonal().diag()).abs().max() < exact


def test_a_checkpoint_continues_bit_for_bit():
    """Saved as a run is saved: plain types, read with `weights_only`."""

    def parts(model):
        optimizer = Muon(model.parameters(), lr=0.02)
        return optimizer, LambdaLR(optimizer, lambda step: 1 / (1 + step))

    whole, stopped = network(), network()
    optimizer, schedule = parts(whole)
    train(whole, [optimizer], range(6), [schedule])
    optimizer, schedule = parts(stopped)
    train(stopped, [optimizer], range(3), [schedule])
    file = io.BytesIO()
    torch.save([stopped.state_dict(), optimizer.state_dict(), schedule.state_dict()], file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed = network()
    optimizer, schedule = parts(resumed)
    for part, state in zip((resumed, optimizer, schedule), copy.deepcopy(saved), strict=True):
        part.load_state_dict(state)
    train(resumed, [optimizer], range(3, 6), [schedule])
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True))


@pytest.mark.integration
@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_a_run_trains_with_it(model, train):
    options = [f"model={model}", *(["model.depth=[1,1]", "model.width=8"] if model == "cnn" else [])]
    options += ["optimizer=muon", "max_steps=20", "lr=0.03"]
    summary, _ = train(*options)
    assert summary["status"] == "completed"
    assert summary["metrics"]["test/loss"] < 2.25  # 2.3 is a guess


WRONG = {"momentum": 1.0}, {"steps": 0}, {"scale": "none"}, {"precision": "half"}


@pytest.mark.parametrize("option", WRONG, ids=str)
def test_wrong_options_are_refused_with_a_remedy(option):
    with refused(rf"{next(iter(option))}=.*; use"):
        Muon([nn.Parameter(torch.ones(2, 2))], **option)
    Muon([nn.Parameter(torch.ones(2, 2))], momentum=0.0, steps=1)  # the least
