"""What an output depends on and should not, the other samples of its batch, and what it should: its input."""

import math
from collections.abc import Iterable
from types import SimpleNamespace

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor
from torch.utils._pytree import tree_leaves

from normexp.check.finding import Found, finding
from normexp.check.findings.perturb import altered, entrance, first_input, least_moved, moved, output_at
from normexp.check.findings.replacement import swap_code
from normexp.check.network import Network
from normexp.check.norm_sites import NormSite
from normexp.check.result import NotChecked
from normexp.check.trace import TINY
from normexp.monitors.listen import CalledFunction
from normexp.norms.layers import BATCH


@finding
def batch_in_eval(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Without running statistics a BatchNorm normalizes with the batch in eval mode, too: what is predicted for a
    sample depends on the others that come with it."""
    batch, half = network.batches.training, (network.samples or 0) // 2

    def of_samples(x: Tensor) -> bool:
        return x.ndim > 0 and len(x) == network.samples

    def first(x: Tensor) -> list[Tensor]:
        """What is of the first half; of similarities of all samples, (N, N), those inside it."""
        return [x[:half, :half] if x.shape[1:] == x.shape[:1] else x[:half]] if of_samples(x) else []

    def repeated(x: Tensor) -> Tensor:
        return torch.cat([x[:half]] * 3)[: len(x)] if of_samples(x) else x

    both = batch, apply_to_collection(batch, Tensor, repeated, allow_frozen=True)
    outputs, written = [], False
    for inputs in both:
        with network.quiet(train=False), torch.no_grad():  # each with the same random numbers
            versions = [p._version for p in network.root.parameters()]
            outputs.append(first(network.output(inputs)))
            written |= versions != [p._version for p in network.root.parameters()]
    change = least_moved(*outputs)
    if not math.isfinite(change):
        raise NotChecked("its output in eval mode is no number")
    if change <= limit.change:
        return
    if written:
        raise NotChecked("its first batch sets its weights, as of ActNorm: check again after some training")
    where = entrance(network, both, first, limit.change, train=False)
    unheld = [norm for norm in network.attempt.heard if norm.unowned and norm.kind == "batch"]
    if any(norm.is_inside(where) for norm in unheld):
        raise NotChecked("eval() does not reach a norm that no module holds; see not_held")
    inside = [call for call in network.calls if call.norm.is_inside(where) and not call.norm.tracked]
    # What eval() leaves in training mode, as where a norm has a train() of its own.
    with network.quiet(train=False):
        stays = [norm for norm in network.tracked if norm.is_inside(where) and norm.module.training]
    if calls := [call for call in inside if call.norm.kind in ("batch", "unknown")]:
        swap = swap_code(network, (call.norm for call in calls), "batch_in_eval")
        called = calls[0].norm
        case = called.module.name if isinstance(called.module, CalledFunction) else "by_hand"
        instead = "build them with track_running_stats=True"
        if not isinstance(called.module, BATCH):
            instead = f"{called.name}: keep a running mean and variance, and use them in eval mode"
        yield Found(calls, change, "" if swap else case, swap=swap, instead=instead)
    elif stays:
        yield Found(stays, change, "stays")
    elif may_hold_no_samples(network):
        raise NotChecked(
            "axis 0 may hold positions (batch_first), or nodes of a graph; pass samples, (N, T, C)"
        )
    else:
        yield Found([where] if where else [], change, "elsewhere", where=where or type(network.root).__name__)


def may_hold_no_samples(network: Network) -> bool:
    """Whether axis 0 of the batch may hold something else: positions, as where layers of sequences have them first or
    get one sequence (T, C), or nodes of a graph, of which a tensor says something for each two."""
    batch_first = [m.batch_first for m in network.modules.values() if hasattr(m, "batch_first")]
    tensors = [x for x in tree_leaves(network.batches.training) if isinstance(x, Tensor)]
    x, n = first_input(network), network.samples
    one = x is None or (x.dim() < 3 and x.is_floating_point())
    return not all(batch_first) or (bool(batch_first) and one) or any(t.shape[:2] == (n, n) for t in tensors)


@finding
def ignores_input(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """InstanceNorm makes the mean over pixels 0 for each sample and channel. A mean over pixels behind it is the shift,
    and the network gives the same whatever arrives."""
    sizes = [size for size in network.trace.gradients.values() if size is not None]
    if not sizes or not max(sizes) or sizes[0] > limit.first * max(sizes):
        return  # the first layer gets a gradient, so the output depends on what it makes
    centered = [c.norm for c in network.understood if c.norm.centers and c.norm.kind != "batch"]
    if not centered:
        return
    if not any(network.trace.gradients.get(norm.named("bias"), 1.0) for norm in centered):
        raise NotChecked("no norm gets a gradient: a last layer starts at 0; check again after some training")
    if (x := first_input(network)) is None or (changed := by_other_input(network, x, [])) is None:
        raise NotChecked("its output is 0, or the inputs of a class of one's own hide; pass tensors")
    if changed > limit.change:
        return
    alone = [p for p in dict.fromkeys(centered) if (by_other_input(network, x, [p]) or 0) > limit.restored]
    if not alone:
        raise NotChecked(
            "no input changes its output, with its norms or without; check again after some training"
        )
    case = "" if all(norm.swappable for norm in alone) else "by_hand"
    yield Found(alone, changed, case if all(math.isfinite(p.layer.eps) for p in alone) else "by_eps")


def by_other_input(network: Network, x: Tensor, without: list[NormSite]) -> float | None:
    """Change of the output by another input, share of its size, with some norms made the identity; None for 0."""
    other = altered(x, torch.ones_like(x, dtype=torch.bool))
    outputs = [output_at(network, inputs, without) for inputs in (x, other)]
    return moved(*outputs) if float(outputs[0].norm()) > TINY else None
