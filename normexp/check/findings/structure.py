"""How norms stand in a network: who holds them, over which axes, in which types, and what their neighbors do."""

from collections.abc import Iterable
from types import SimpleNamespace

from normexp.check.finding import Found, above, finding
from normexp.check.inputs import name_of
from normexp.check.network import Network
from normexp.check.norm_sites import HELD, LATE, MADE, NormSite, gain_type
from normexp.format import pluralize
from normexp.models.sites import LINEAR_MAPS


@finding
def not_held(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """train(), eval(), the optimizer, to() and the state dict reach only what a module holds. A norm in a list or made
    inside a forward stays in training mode, keeps its start, and is not saved."""
    unowned = [norm for norm in network.attempt.heard if norm.unowned and matters(norm)]
    for how, case in ((HELD, "held"), (MADE, "made"), (LATE, "late")):
        if found := [norm for norm in unowned if norm.unowned == how]:
            names = ", ".join(dict.fromkeys(norm.name for norm in found))
            norms = f"{pluralize(len(found), 'norm')} ({names})"
            yield Found(found, len(found), case, name=found[0].name, norms=norms)
    network.require_pass()


def matters(norm: NormSite) -> bool:
    """Whether a norm has something that training, saving or its mode changes."""
    states = (*norm.module.parameters(), *norm.module.buffers())
    return bool(states) or norm.kind in ("batch", "unknown")


@finding
def wrong_axis(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Torch's BatchNorm, InstanceNorm and GroupNorm take axis 1 for channels, and InstanceNorm an input without
    positions for a single sample. A norm over another axis runs without an error."""
    rows, turned = [], []
    for call in network.attempt.calls:
        layer, shape = call.norm.layer, call.x.shape
        if call.norm.kind not in ("batch", "instance", "group"):
            continue
        if layer.unbatched(len(shape)):
            if network.samples in (None, shape[0]):
                rows.append(call)
        elif len(shape) > 2 and layer.channel_dim == 1 and call.channels == -1:
            turned.append(call)
    if rows:
        sizes, first = {call.norm.path: call.x[0].numel() for call in rows}, rows[0]
        fields = {"name": first.norm.name, "values": first.x[0].numel(), "sizes": sizes}
        yield Found(rows, first.x.shape[0], "rows", **fields)
    if turned:
        fields = {"words": turned[0].norm.description(turned[0].x.shape), "last": turned[0].x.shape[-1]}
        yield Found(turned, turned[0].x.shape[1], "turned", **fields)
    network.require_pass()


@finding
def types(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A gain of float32 makes the output float32: the next layer fails, or everything behind runs in float32, at twice
    the memory and half the speed."""
    calls = [c for c in network.attempt.calls if c.gives is not None and not c.autocast]
    wider = [c for c in calls if c.gives != c.x.dtype and c.x.is_floating_point()]
    if wider:
        first, by_gain = wider[0], [c for c in wider if gain_type(c.norm) == c.gives]
        fields = {"gets": name_of(first.x.dtype), "gives": name_of(first.gives)}
        case = "gain" if by_gain and by_gain[0] is first else "forward"
        yield Found(by_gain if case == "gain" else wider, case=case, name=first.norm.name, **fields)
    network.require_pass()


@finding
def bias_cancelled(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm over the batch or the pixels takes the mean of each channel away, and a bias before it with the mean. Its
    own shift does the bias's work; the bias takes memory and steps for nothing."""
    gradients, found = network.trace.learning(), []
    for call in network.calls:
        before = network.modules.get(call.before)
        if call.norm.kind in ("batch", "instance") and isinstance(before, LINEAR_MAPS):
            weight, bias = (gradients.get(f"{call.before}.{name}") for name in ("weight", "bias"))
            if weight and bias is not None and bias <= limit.share * weight:
                found.append((call.before, bias / weight))
    if found:
        largest = max(share for _, share in found)
        yield Found([path for path, _ in found], largest, biases=len({path for path, _ in found}))


@finding
def fixed_output(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A normalized value is of the size 1, so gain and shift say what leaves: with a gain of 0, or a shift many gains
    away, the same number whatever arrives; behind it an activation may be dead."""
    shares, gradients = [], network.trace.gradients
    for call in network.understood:
        gain, shift = call.norm.layer.gain, call.norm.layer.shift
        if gain is None or shift is None or gain.shape != shift.shape:
            continue
        zero = (gain == 0).all() and (shift == 0).all()
        if zero and gradients.get(call.norm.named("weight")):
            continue  # starts at 0 on purpose, as the last norm of a residual branch, and learns
        fixed = shift.abs() > limit.far * gain.abs()
        shares.append((call, float((fixed | (gain == 0)).float().mean())))
    yield from above(shares, limit.share, far=limit.far)


@finding
def norm_of_norm(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """What a norm makes is normalized. A second one undoes the first one's gain and shift, in part or whole."""
    norms = {norm.path: norm for norm in network.norms}
    calls = [c for c in network.understood if c.before in norms and c.before != c.norm.path]
    twice = [call for call in calls if norms[call.before].kind not in ("none", "unknown")]
    if twice:
        yield Found(twice, first=twice[0].before)
