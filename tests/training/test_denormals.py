"""A training takes denormal numbers for zero in each thread that computes. Its caller's threads stay as they were."""

from typing import ClassVar

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import normexp
from normexp.training.lightning import denormals, flushed
from normexp.training.lit_model import LitModel

TINY = torch.full((1 << 20,), 1e-39)  # large enough to be spread over threads


def zeros() -> float:
    return float((TINY * 1 == 0).double().mean())


class Watched(torch.autograd.Function):
    seen: ClassVar[list[float]] = []

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        Watched.seen.append(zeros())
        return grad


def test_threads_that_wait_for_work_flush_too_and_stop_afterwards(two_threads):
    assert zeros() == 0  # of two threads, both at work before
    with denormals(flush=True):
        assert zeros() == 1
        with denormals(flush=False):
            assert zeros() == 0
        assert zeros() == 1
    assert not flushed()
    assert zeros() == 0


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_backward_pass_flushes(two_threads, reentrant):
    assert zeros() == 0
    Watched.seen.clear()
    with denormals(flush=True):
        x = torch.ones(3, requires_grad=True)
        (Watched.apply(x) + checkpoint(Watched.apply, x, use_reentrant=reentrant)).sum().backward()
    assert Watched.seen == [1, 1]


@pytest.mark.parametrize(("asked", "expected"), [({}, True), ({"flush_denormal": False}, False)])
def test_a_run_flushes_and_its_caller_does_not(tmp_path, monkeypatch, asked, expected):
    seen = []
    step = LitModel.training_step

    def watched(self, batch, batch_idx):
        seen.append(flushed())
        return step(self, batch, batch_idx)

    monkeypatch.setattr(LitModel, "training_step", watched)
    run = normexp.train(norm="none", optimizer="sgd", max_steps=2, outputs=tmp_path, **asked)
    assert set(seen) == {expected}
    assert not flushed()
    assert run.summary["numerics"] == normexp.NUMERICS
