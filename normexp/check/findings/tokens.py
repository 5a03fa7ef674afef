"""Sequences: padding inside statistics, and statistics that show a causal model the future."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from normexp.check.finding import Found, finding
from normexp.check.inputs import split, tensor_of
from normexp.check.network import Network
from normexp.check.result import NotChecked
from normexp.check.trace import Call, copied
from normexp.models.sites import EMBEDDINGS

PADDED = 0.05  # share of padding
SHIFTED = 0.05  # of a deviation
LEAK = 1e-6  # of the gradient by the past; a mask leaves exactly 0


def mask_of(network: Network) -> tuple[Tensor, str]:
    """(mask (N, T), True at real tokens; where it comes from)."""
    given, batch = network.asked.mask, network.batches.training
    if given is not None:
        mask = given(batch) if callable(given) else given
        return torch.as_tensor(mask)[: network.samples].bool(), "mask="
    inputs, _ = split(batch)
    if isinstance(inputs, Mapping):
        if isinstance(mask := inputs.get("attention_mask"), Tensor) and mask.dim() == 2:
            return mask.bool(), "attention_mask"
        inputs = next((x for x in inputs.values() if isinstance(x, Tensor)), None)
    guessed = guess(inputs) if isinstance(inputs, Tensor) else None
    if guessed is None:
        raise NotChecked(
            "no row of zeros was found at the end of a sequence; pass mask=, (N, T), True at real tokens"
        )
    return guessed, "rows of zeros"


def guess(x: Tensor) -> Tensor | None:
    """The mask of sequences that end in zeros: tokens (N, T), vectors (N, T, C) or (N, C, T). None if there is no
    padding, or if all sequences end at once."""
    if x.dim() == 2 and not x.is_floating_point():
        zero = [x == 0]
    elif x.dim() == 3 and x.is_floating_point():
        zero = [(x == 0).all(-1), (x == 0).all(1)]
    else:
        return None
    for empty in zero:
        tail = empty.flip(1).long().cumprod(1).flip(1).bool()  # zeros up to the end
        if tail.any() and not tail.all(1).any() and len(tail.sum(1).unique()) > 1:
            return ~tail
    return None


@finding("padding_counted", "S40a", "S40")
def padding_counted(network: Network) -> Iterable[Found]:
    """Padding that enters the statistics pulls them toward its own value, so a sample's output depends on how long
    the others in its batch are."""
    over_time = [
        c for c in network.trace.calls if c.place.kind in ("batch", "instance", "group") and len(c.shape) > 2
    ]
    if not any(call.place.kind == "batch" or call.values for call in over_time):
        return
    mask, source = mask_of(network)
    share = float(1 - mask.float().mean())
    if share < PADDED:
        return
    moved: dict[str, float] = {}
    for call in over_time:
        if not call.masked and (shift := shifted_by(call, mask)) is not None:
            moved[call.place.path] = max(shift, moved.get(call.place.path, 0.0))
    found = {path: shift for path, shift in moved.items() if shift > SHIFTED}
    if found:
        path = max(found, key=found.__getitem__)
        yield Found(
            "warning",
            f"{share:.0%} of the positions are padding ({source}) and enter the statistics of {path}: they move "
            f"them by {found[path]:.2g} deviations.",
            found[path], "move of mean or deviation by padding, in deviations of the real tokens",
            "nn.LayerNorm over the channels of each token, or a norm that takes the mask (normexp.norms, "
            "`layer(x, mask)`)",
            tuple(found),
        )  # fmt: skip


def shifted_by(call: Call, mask: Tensor) -> float | None:
    """How far padding moves the statistics of a call (root mean square over statistics), in deviations of the real
    tokens; None if its input has no axis of the mask."""
    n, t = mask.shape
    x = call.x
    if x.shape[0] != n or t not in x.shape[1:]:
        return None
    axis = 1 + list(x.shape[1:]).index(t)
    real = mask.to(x.device).view(n, *[t if d == axis else 1 for d in range(1, x.dim())]).expand(x.shape)
    rows, kept = call.place.groups(x), call.place.groups(real.to(x.dtype))
    count = kept.sum(1).clamp_min(1)
    mean = (rows * kept).sum(1) / count
    std = (((rows - mean[:, None]) * kept).square().sum(1) / count + call.place.eps).sqrt()
    apart = (rows.mean(1) - mean) / std
    wider = (rows.var(1, correction=0) + call.place.eps).sqrt() / std - 1
    return float(torch.maximum(apart.square().mean().sqrt(), wider.square().mean().sqrt()))


@finding("sees_future", "S40a", "P20")
def sees_future(network: Network) -> Iterable[Found]:
    """Statistics over the positions of a sequence tell an early position about later ones, past the causal mask:
    the training loss then flatters the model, and generating gives something else."""
    if network.trace.error is not None or not any(len(call.shape) > 2 for call in network.trace.calls):
        return
    with network.quiet(train=True) as step:
        own = future_share(network, step)
    if own is None or own <= LEAK:
        return
    suspects = [
        c.place for c in network.trace.calls if c.place.kind in ("batch", "instance", "group", "sample")
    ]
    with network.quiet(train=True) as step:
        for place in dict.fromkeys(suspects):
            place.module.register_forward_hook(keep_input)
        without = future_share(network, step)
    if without is None or without > LEAK:
        return  # attention to later positions, by design
    wide = [c.place.path for c in network.trace.calls if c.place.kind in ("batch", "instance", "group")]
    paths = tuple(dict.fromkeys(wide)) or tuple(dict.fromkeys(c.place.path for c in network.trace.calls))
    yield Found(
        "warning",
        f"Without its norms this model is causal; with them {own:.2g} of an output's gradient is by later positions.",
        own, "|gradient by later positions| / |gradient by all|, of an output in the middle",
        'normexp.norms.swap(model, "layernorm")  # or rmsnorm: one token at a time', paths,
    )  # fmt: skip


def keep_input(module: nn.Module, args: tuple, output: Any) -> Any:
    """A hook that makes a norm the identity."""
    return args[0] if args and isinstance(args[0], Tensor) else output


def future_share(network: Network, step: nn.Module) -> float | None:
    """Share of the gradient of the outputs in the middle of a sequence that is by later positions of the input; None if
    input and output have no axis of positions in common, or if the gradient is 0 or not finite."""
    inputs, _ = split(copied(network.batches.training))
    root = network.root
    if not isinstance(inputs, Mapping):
        if not isinstance(inputs, Tensor):
            return None
        inputs = {"": inputs}
    name, x = next(((key, x) for key, x in inputs.items() if isinstance(x, Tensor)), ("", None))
    if x is None or x.dim() not in (2, 3) or (x.dim() == 2 and x.is_floating_point()):
        return None
    leaves: list[Tensor] = []

    def embedded(module: nn.Module, args: tuple, output: Tensor) -> Tensor | None:
        if not leaves and args and args[0].shape == x.shape:
            leaves.append(output.detach().requires_grad_())
            return leaves[0]
        return None

    if x.is_floating_point():
        leaves.append(x.detach().clone().requires_grad_())
        inputs = {**inputs, name: leaves[0]}
    handles = [m.register_forward_hook(embedded) for m in root.modules() if isinstance(m, EMBEDDINGS)]
    try:
        output = tensor_of(root(inputs[""]) if "" in inputs else root(**inputs))
    except Exception:  # the pass of the whole step is judged elsewhere
        return None
    finally:
        for handle in handles:
            handle.remove()
    if not leaves or output.dim() != 3:
        return None
    axes = [
        (i, o)
        for i in (1, 2)
        for o in (1, 2)
        if leaves[0].dim() == 3 and leaves[0].shape[i] == output.shape[o]
    ]
    if not axes or leaves[0].shape[axes[0][0]] < 3:
        return None
    shares = []
    for into, out in axes:
        middle = output.shape[out] // 2
        chosen = output.select(out, middle).float()
        signs = (
            torch.randint(0, 2, chosen.shape, generator=torch.Generator().manual_seed(0)).to(chosen) * 2 - 1
        )
        (gradient,) = torch.autograd.grad(
            (chosen * signs).sum(), leaves[0], retain_graph=True, allow_unused=True
        )
        if gradient is None:
            return None
        total = float(gradient.norm())
        later = float(gradient.narrow(into, middle + 1, gradient.shape[into] - middle - 1).norm())
        if not total or total != total:
            return None
        shares.append(later / total)
    return min(shares)
