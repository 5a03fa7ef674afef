"""Sequences: padding inside statistics, and statistics that show a causal model the future."""

import math
from collections.abc import Iterable, Mapping
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from normexp.check.finding import Found, above, finding
from normexp.check.inputs import random_signs, split
from normexp.check.masks import first_input, laid, mask_of
from normexp.check.network import Network
from normexp.check.result import NotChecked
from normexp.check.trace import TINY, Call, Place, copied
from normexp.models.sites import EMBEDDINGS
from normexp.monitors.sites import first_tensor


@finding
def padding_counted(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Padding that enters the statistics pulls them toward its own value, so a sample's output depends on how long
    the others in its batch are."""
    over_time = [call for call in network.calls if call.mixes_positions(network.samples)]
    if not over_time:
        return
    mask, x = mask_of(network), first_input(network)
    if mask is None:
        if x is not None and x.dim() > 3:
            return  # images
        raise NotChecked("pass mask=, (N, T), True at real tokens")
    if mask.real.dim() != 2:
        raise NotChecked(f"mask= has the shape {tuple(mask.real.shape)}; pass (N, T), True at real tokens")
    if bool(mask.real.all()):
        raise NotChecked(f"no position of the batch is padding ({mask.source}); pass a batch with padding")
    told = [call for call in over_time if not call.masked]
    shown = [(call, lies) for call in told if (lies := laid(mask.real, call)) is not None]
    share = float(1 - mask.real.float().mean())
    moved = [(call, shifted_by(call, lies)) for call, lies in shown]
    found = list(above(moved, limit.moved, share=share, source=mask.source))
    if not found and len(shown) < len(told):
        other = next(call for call in told if laid(mask.real, call) is None)
        raise NotChecked(
            f"the mask ({mask.source}) is {tuple(mask.real.shape)}, and {other.place.path} gets "
            f"{tuple(other.x.shape)}; pass mask= of the samples and positions there"
        )
    yield from found


def shifted_by(call: Call, real: Tensor) -> float:
    """How far padding moves the statistics of a call (root mean square over statistics), in deviations of the real
    tokens."""
    rows, weights = call.place.groups(call.x), call.place.groups(real.to(call.x.dtype))
    kept = weights.sum(1) > 0
    rows, weights = rows[kept], weights[kept]
    count = weights.sum(1)
    mean = (rows * weights).sum(1) / count
    std = (((rows - mean[:, None]) * weights).square().sum(1) / count + call.place.eps).sqrt().clamp_min(TINY)
    apart = (rows.mean(1) - mean) / std
    wider = (rows.var(1, correction=0) + call.place.eps).sqrt() / std - 1
    return max(float(moves.square().mean().sqrt()) for moves in (apart, wider))


@finding
def sees_future(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Statistics over the positions of a sequence tell an early position about later ones, past the causal mask:
    the training loss then flatters the model, and generating gives something else."""
    calls = [call for call in network.calls if call.place.kind != "none"]
    if not any(call.x.dim() > 2 for call in calls):
        return
    share, norms = future_share(network, []), [call.place for call in calls]
    # A network that attends to later positions by design still does without its norms, and one that takes each position
    # by itself attends to no earlier ones.
    causal = share > limit.leak and future_share(network, norms) <= limit.leak
    if causal and future_share(network, norms, earlier=True) > limit.leak:
        yield Found([call for call in calls if call.mixes_positions(network.samples)] or calls, share)


def future_share(network: Network, without: list[Place], *, earlier: bool = False) -> float:
    """Share of the gradient of the outputs in the middle of a sequence that goes to later positions of the input, or to
    `earlier` ones, with the norms in `without` made the identity. Not a number if input and output have no axis of
    positions in common, or if no gradient comes."""
    batch = copied(network.batches.training)
    inputs, _ = split(batch, network.root)
    x = first_tensor((), inputs if isinstance(inputs, Mapping) else {"": inputs})
    if x is None:
        return math.nan
    leaves = [x.requires_grad_()] if x.is_floating_point() else []

    def embedded(module: nn.Module, args: tuple, output: Tensor) -> Tensor | None:
        if leaves or not args or args[0].shape != x.shape:
            return None
        leaves.append(output.detach().clone().requires_grad_())
        return leaves[0]

    with network.quiet(train=True, without=without):
        for module in network.root.modules():
            if isinstance(module, EMBEDDINGS):
                module.register_forward_hook(embedded)
        try:
            output = network.forward(batch)
        except Exception:  # the pass of the whole step is judged elsewhere
            return math.nan
        if not leaves or leaves[0].dim() != 3 or output.dim() != 3:
            return math.nan
        axes = [(i, o) for i in (1, 2) for o in (1, 2) if leaves[0].shape[i] == output.shape[o] > 2]
        shares = [share_of(leaves[0], output, *pair, earlier) for pair in axes]
        return min(shares, default=math.nan)


def share_of(x: Tensor, y: Tensor, into: int, out: int, earlier: bool) -> float:
    """|d y_middle / d x_later| / |d y_middle / d x|, or that of earlier positions, along the axes `into` of x and `out`
    of y. y_middle is a random sum of the outputs at the middle position."""
    middle = y.shape[out] // 2
    chosen = y.select(out, middle).float()
    mixed = (chosen * random_signs(chosen.shape, chosen)).sum()
    try:
        (g,) = torch.autograd.grad(mixed, x, retain_graph=True, materialize_grads=True)
    except RuntimeError:  # reentrant checkpoints give no gradient by the input
        return math.nan
    positions = (0, middle) if earlier else (middle + 1, g.shape[into] - middle - 1)
    return float(g.narrow(into, *positions).norm() / g.norm())
