"""The running statistics of a layer: torch's by their names, others by what a batch does to them in training mode."""

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn

from normexp.norms.layers.outputs import answer, inputs, twin_of

Names = tuple[str, str]  # of the mean and of the variance
NAMES: Names = ("running_mean", "running_var")
CLOSE = 1e-3  # of a move: it goes straight toward the batch's statistic


def states_of(module: nn.Module) -> dict[str, Tensor]:
    """The tensors that a layer itself may change while it trains, of one number a channel: buffers, and tensors that
    are plain attributes."""
    held = {**{k: v for k, v in module.__dict__.items() if isinstance(v, Tensor)}, **module._buffers}
    return {
        name: value
        for name, value in held.items()
        if value is not None and value.is_floating_point() and 1 < value.numel() == max(value.shape)
    }


def running_names(module: nn.Module) -> Names | None:
    """The names under which a layer keeps a running mean and variance of one shape; None if it keeps none."""
    return _named_as_torchs(module) or (running_of(module) or (None,))[0]


def _named_as_torchs(module: nn.Module) -> Names | None:
    mean, var = (getattr(module, name, None) for name in NAMES)
    return NAMES if isinstance(mean, Tensor) and isinstance(var, Tensor) and mean.shape == var.shape else None


def running_of(module: nn.Module) -> tuple[Names, float | None] | None:
    """`running_names`, and the share of a running statistic that one batch leaves: None if it changes from batch to
    batch, as of a plain average, or if no batch moves it."""
    named, states = _named_as_torchs(module), states_of(module)
    # A twin calls the children of a layer themselves, and a forward of this very object, so these are not tried.
    tried = not (type(module).__module__.startswith("torch.") or module._modules or "forward" in vars(module))
    if not named and (not tried or len(states) < 2):
        return None
    for size in {value.numel() for name, value in states.items() if name in (named or states)}:
        paces = _paces(module, size)
        mean, var = named or (next((n for n, kind in paces if kind == end), "") for end in ("mean", "var"))
        if mean and var:
            shares = paces.get((mean, "mean"), [])
            same = all(abs(a - b) < CLOSE for a, b in pairwise(shares))
            return (mean, var), round(1 - shares[-1], 6) if shares and same else None
    return (named, None) if named else None


def _paces(module: nn.Module, size: int) -> Mapping[tuple[str, str], list[float]]:
    """(name, mean or var) -> the share of the way that each of two batches moves a tensor toward the batch's mean or
    variance, for the tensors that go there. A first batch comes before: some start with its statistics."""
    for shape, channel_dim in inputs((size,), twin_of(module, training=True)):
        twin, found = twin_of(module, training=True), None
        for turn in range(3):
            x = shape * (1 + 0.3 * turn) + turn
            before = {name: value.clone().flatten() for name, value in states_of(twin).items()}
            if answer(twin.forward, x, gradients=False) is None:
                break
            after = states_of(twin)
            moved: dict[tuple[str, str], float] = {}
            rows = x.movedim(channel_dim, 0).flatten(1)
            ends = (("mean", rows.mean(1)), ("var", rows.var(1)), ("var", rows.var(1, correction=0)))
            for name, start in before.items():
                for kind, end in ends:
                    if name in after and start.numel() == size:
                        share = _share(start, after[name].flatten(), end.to(start))
                        moved |= {} if share is None else {(name, kind): share}
            if turn:
                common = moved if found is None else moved.keys() & found.keys()
                found = {key: [*(found or {}).get(key, []), moved[key]] for key in common}
        else:
            if found:
                return found
    return {}


def _share(start: Tensor, now: Tensor, end: Tensor) -> float | None:
    """k with now = start + k (end - start), 0 < k; None if there is none."""
    span, moved = end - start, now - start
    k = float((span * moved).sum() / span.square().sum().clamp_min(1e-30))
    close = bool((moved - k * span).abs().max() <= CLOSE * moved.abs().max())
    return k if close and k > 0 and bool(torch.isfinite(now).all()) else None
