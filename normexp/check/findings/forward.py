"""What the forward pass makes of the norms: skipped, repeated, over another axis, without gradients, or cutting off the
input."""

from collections.abc import Iterable
from types import SimpleNamespace

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn

from normexp.check.calls import TINY, Place
from normexp.check.finding import Found, finding
from normexp.check.network import Network
from normexp.check.trace import trace
from normexp.models.sites import EMBEDDINGS
from normexp.monitors.guard import weights

MOVED = 0.1  # of its size, by which each weight is moved at random, so that no number is 0 or 1 by its start


@finding
def input_ignored(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm that subtracts the mean of what is averaged right behind it leaves its shift alone, whatever the input
    was: InstanceNorm before global pooling, for one."""
    share = spread(network, [])
    if share <= limit.share:
        places = list(dict.fromkeys(call.place for call in network.calls))
        alone = [place for place in places if spread(network, [place]) > limit.share]
        if alone or spread(network, places) > limit.share:
            yield Found(alone or places, share)


def spread(network: Network, without: list[Place]) -> float:
    """How much the outputs of samples differ, as a share of their size, for weights near those of the network, with
    some norms made the identity."""
    with network.quiet(train=False, without=without) as step, torch.no_grad():
        for place in network.tracked:
            place.module.train(place.seen == 0)  # statistics that saw no batch would let the signal fade
        torch.manual_seed(0)
        with weights({p: moved(p.data) for p in step.parameters() if p.is_floating_point()}):
            y = network.output(network.batches.training)
    return float((y - y.mean(0)).norm() / y.norm().clamp_min(TINY))


def moved(p: Tensor) -> Tensor:
    """A weight, moved at random by a share of its size."""
    size = float(p.float().square().mean().sqrt()) or 1.0
    return p + (MOVED * size * torch.randn(p.shape)).to(p)


@finding
def batch_in_eval(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Without running statistics, or where its forward always trains, a BatchNorm normalizes with the batch in eval
    mode, too: what is predicted for a sample depends on the others that come with it."""
    calls = [call for call in network.calls if call.place.kind == "batch"]
    if not calls:
        return
    half, batch = network.samples // 2, network.batches.training
    chosen = [i if i < half else i % max(half, 1) for i in range(network.samples)]
    repeated = apply_to_collection(batch, Tensor, lambda x: x[chosen] if x.ndim else x)

    def change(without: list[Place]) -> float:
        outputs = []
        for inputs in (batch, repeated):
            with network.quiet(train=False, without=without), torch.no_grad():
                outputs.append(network.output(inputs)[:half])
        return float((outputs[0] - outputs[1]).norm() / outputs[0].norm().clamp_min(TINY))

    number, without = change([]), [call for call in calls if not call.place.tracked]
    if number > limit.change and (without or change([call.place for call in calls]) <= limit.change):
        yield Found(without or calls, number)


@finding
def nothing_learns(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Where no gradient is recorded, the norm and all before it stay as they are."""
    lost, again = network.trace.without_gradient, network.trace.recomputed
    learning = {call.place for call in network.calls if call.learns or call.place.path in again}
    silent = []
    for place in dict.fromkeys(call.place for call in network.calls):
        own = own_names(network, place, trained=True)
        all_lost = bool(own) and own <= lost
        unrecorded = place not in learning and (all_lost or (not own and lost))
        if unrecorded or (all_lost and not network.guessed):
            silent.append(place)
    if silent:
        yield Found(silent, lost=len(lost))


def own_names(network: Network, place: Place, *, trained: bool = False) -> set[str]:
    """Names of the parameters of a norm itself."""
    parameters = network.root.named_parameters()
    return {
        n for n, p in parameters if n.rpartition(".")[0] == place.path and (p.requires_grad or not trained)
    }


@finding
def never_called(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm that the forward pass does not reach normalizes nothing, and its gain and shift are saved as they were
    made."""
    lost = network.trace.without_gradient
    called = {call.place for call in network.calls} | {p for p in network.places if p.kind == "none"}
    idle = [place for place in network.places if place not in called and own_names(network, place) <= lost]
    if idle:  # LayerDrop, for one, leaves layers out in training mode only
        with network.quiet(train=False) as step:
            called |= {call.place for call in trace(step, network.batches.training, network.places).calls}
    if never := [place for place in idle if place not in called]:
        yield Found(never)


@finding
def twice_in_a_row(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """What a norm gave already has the mean and the variance of its gain and shift, so that a second one of its kind
    does nothing but scale and shift."""
    first = {
        call.place.path: call.after.path
        for call in network.calls
        if call.after not in (None, call.place) and call.after.kind == call.place.kind != "none"
    }
    if first:
        yield Found(first, first=first.get)


@finding
def tokens_as_channels(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """BatchNorm1d takes (N, C, T). Given (N, T, C) it normalizes each position over the channels, and stops with an
    error at any other length; where T = C nothing shows."""
    last, wrong = None, []
    for call in network.calls:
        last = call.maker or last
        square = call.x.dim() == 3 and call.x.shape[1] == call.x.shape[2] and call.x.stride(-1) == 1
        rows = isinstance(last, (nn.Linear, nn.LayerNorm, nn.MultiheadAttention, *EMBEDDINGS))
        if isinstance(call.place.module, nn.BatchNorm1d) and square and rows:
            wrong.append(call)
    if not wrong:
        return
    length, found = wrong[0].x.shape[1], Found(wrong)
    found.number = length

    def cut(x: Tensor) -> Tensor:
        return x[:, :-1] if x.ndim > 1 and x.shape[1] == length else x

    with network.quiet(train=True) as step:
        shorter = apply_to_collection(network.batches.training, Tensor, cut)
        attempt = trace(step, shorter, network.places)
    if attempt.error is not None and attempt.inside in found.layers:
        yield found


@finding
def moves_twice(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Activation checkpointing runs the forward pass again for the gradient, and BatchNorm in it counts the batch
    again. The outputs of the step are right; the running statistics follow the last batches more closely."""
    if paths := network.trace.recomputed:
        keep = next(place.keep for place in network.places if place.path == paths[0])
        if keep is None:
            yield Found(paths, 2, "average")
        elif keep < 1:
            yield Found(paths, 2, acts=1 - keep**2, momentum=1 - keep, same=1 - keep**0.5)
    learning = {call.place for call in network.calls if call.learns}
    idle = [call for call in network.calls if call.training and not call.learns and call.place in learning]
    if again := [call for call in idle if call.place.tracked and call.place.follows_batches]:
        yield Found(again, 2, "unlearned")


@finding
def scale_cancelled(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Weight normalization learns the length of each row of weights, and a norm of each channel behind it divides by
    that length again: it changes nothing but the size of the steps."""
    paths, makers = {module: path for path, module in network.modules.items()}, {}
    for call in network.calls:
        parametrized = getattr(getattr(call.maker, "parametrizations", None), "weight", [None])[0]
        weighted = hasattr(call.maker, "weight_g") or type(parametrized).__name__ == "_WeightNorm"
        if weighted and call.place.kind in ("batch", "instance"):
            makers[call.place.path] = paths[call.maker]
    if makers:
        yield Found(makers, maker=makers.get)
