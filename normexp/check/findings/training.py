"""What the training around the norms does to them: optimizer, saving, batches, gradients, momentum."""

from collections.abc import Iterable, Mapping
from itertools import cycle, islice
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from normexp.check.finding import Found, finding
from normexp.check.findings.statistics import momentum_code
from normexp.check.inputs import matched, seed_all
from normexp.check.network import Network
from normexp.check.result import NotChecked
from normexp.check.trace import TINY, trace

FREE = " The optimizer has a group without decay, and they are not in it."
DRAWS = 9  # passes in which a norm may run
STEPS = 1000  # over which decay_on_norms adds up; its sentence names them


@finding
def last_batch_of_one(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A BatchNorm over one value has no variance. Torch stops with `Expected more than 1 value per channel when
    training`, at the end of the epoch."""
    calls = [call for call in network.calls if call.norm.follows_batches]
    alone = [call for call in calls if network.samples and call.values == network.samples]
    if not alone:
        return
    loader = network.training_loader
    if not isinstance(loader, DataLoader) or (size := loader.batch_size) is None:
        raise NotChecked("pass the DataLoader of the training, with batch_size=")
    if loader.drop_last:
        return
    if not hasattr(loader.dataset, "__len__"):
        raise NotChecked("the loader has no length; take drop_last=True, and no last batch is of one")
    if len(loader.dataset) % size == 1:
        yield Found(alone, 1, of=len(loader.dataset))


def own_optimizer(network: Network) -> Any:
    """The optimizer. Raises NotChecked if it trains another network."""
    optimizer = network.options.need("optimizer")
    if not {p for group in optimizer.param_groups for p in group["params"]} & set(network.root.parameters()):
        raise NotChecked("optimizer= holds no parameter of this network; make it of this one")
    return optimizer


@finding
def decay_on_norms(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Weight decay pulls gains toward 0, which nothing in the loss asks for. Whether that costs accuracy has no
    verdict here yet; before a norm, scaling weights changes nothing but their step."""
    optimizer, above_one = own_optimizer(network), offsets(network)
    names = {p: name for p, name in network.parameters().items() if p not in above_one}
    decayed = [
        (group, names[p])
        for group in optimizer.param_groups
        if group.get("weight_decay")
        for p in group["params"]
        if p in names
    ]
    if decayed:
        group = max((group for group, _ in decayed), key=lambda group: pull(group) or 0.0)
        share, decay, layers = pull(group), float(group["weight_decay"]), [name for _, name in decayed]
        free = any(not group.get("weight_decay") for group in optimizer.param_groups)
        fields = {"rate": float(group["lr"]), "decay": decay, "free": FREE if free else ""}
        if share is None:
            yield Found(layers, decay, "in_gradient", **fields)
            return
        shrinks = 1 - max(0.0, 1 - share) ** STEPS
        yield Found(layers, shrinks, "shrinks" if shrinks > limit.shrinks else "", **fields)


def offsets(network: Network) -> set[Tensor]:
    """The parameters to which a norm adds 1 for its gain, as Gemma's: decay pulls the gain to 1."""
    found: set[Tensor] = set()
    for layer, module in ((norm.layer, norm.module) for norm in network.norms):
        used = {part.data_ptr() for part in (layer.gain, layer.shift) if part is not None}
        if layer.gain is not None:
            others = (p for p in module.parameters(recurse=False) if p.data_ptr() not in used)
            found |= {p for p in others if torch.equal(layer.gain.double(), (1 + p).double().flatten())}
    return found


def pull(group: dict[str, Any]) -> float | None:
    """The share of a gain that decay alone takes in a step, with what momentum adds up. None where decay is part of a
    gradient that is divided by its size, as Adam's and RMSprop's."""
    if group.get("decoupled_weight_decay") is False or {"centered", "lr_decay", "rho"} & group.keys():
        return None
    momentum = group.get("momentum", 0.0) if "dampening" in group else 0.0  # of SGD
    dampening = group["dampening"] if momentum else 0.0
    return float(group["lr"]) * float(group["weight_decay"]) * (1 - dampening) / max(1 - momentum, TINY)


@finding
def not_optimized(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """What no group of the optimizer has keeps its start. That happens to norms that were put in after the optimizer
    was made, and where groups are chosen by name or by shape."""
    optimizer = own_optimizer(network)
    held = {p for group in optimizer.param_groups for p in group["params"]}
    if absent := [n for p, n in network.parameters().items() if p.requires_grad and p not in held]:
        yield Found(absent)


@finding
def not_saved(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """Running statistics are buffers, and gains are parameters of layers that an adapter does not list. What is not
    saved starts anew when the weights are loaded."""
    state = network.root.state_dict()
    changing = [saved_as(name, state) for name in network.changing]
    if plain := [name for name in changing if name not in state]:
        yield Found(plain, case="plain")
    saved = matched(network.options.need("state_dict"), network.root, "state_dict=")
    needed = [saved_as(name, state) for p, name in network.parameters().items() if p.requires_grad]
    buffers = [name for name in changing if name in state]
    if missing := [name for name in needed + buffers if name not in saved]:
        unsaved = len(set(missing) & set(buffers))
        yield Found(missing, of=len(needed + buffers), buffers=unsaved, rest=len(missing) - unsaved)


def saved_as(name: str, state: Mapping[str, Any]) -> str:
    """The name of a tensor in its network's state dict: the wrappers of FSDP and of checkpoints leave their own part
    out, as `_checkpoint_wrapped_module`."""
    short = ".".join(part for part in name.split(".") if not part.startswith("_"))
    return name if name in state or short not in state else short


@finding
def momentum(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """momentum is the share that a new batch gets in torch, and the share that is kept in Keras, TensorFlow and
    Flax."""
    shares = {norm: 1 - norm.layer.keep for norm in network.tracked if norm.layer.keep is not None}
    if swapped := [norm for norm, share in shares.items() if share > limit.share]:
        first, code = shares[swapped[0]], momentum_code(network, swapped, "momentum")
        yield Found(swapped, 1 - first, "swapped" if first <= 1 else "beyond", momentum=first, set=code)
    if still := [norm for norm, share in shares.items() if share == 0]:
        yield Found(still, 0, "still")


@finding
def nothing_learns(network: Network, limit: SimpleNamespace) -> Iterable[Found]:
    """A norm whose gain and shift get no gradient stays as it was made: the forward pass does not reach it, or records
    no gradient there."""
    idle = {name for name, size in network.trace.learning().items() if size is None}
    trains = {
        p: {p.named(n) for n, x in p.module.named_parameters() if x.requires_grad} for p in network.norms
    }
    silent = [norm for norm, names in trains.items() if names and names <= idle]
    learns = {call.norm: call.learns for call in network.calls}
    never = [p for p in silent if p not in learns and p.path not in network.attempt.hidden]
    # LayerDrop leaves layers out in training mode; others draw the layer that runs, or take it by the batch.
    batches = [network.batches.training, *(network.other_batches if never else [])]
    for draw, batch in enumerate(islice(cycle(batches), DRAWS)):
        if not never:
            break
        with network.quiet(train=draw > 0) as step:
            seed_all(network.options.seed + draw)
            reached = {call.norm for call in trace(step, batch, network.norms).calls}
        never = [norm for norm in never if norm not in reached]
    if never:
        yield Found(never, case="never")
    stopped = [norm for norm in silent if norm in learns and not (learns[norm] and network.guessed)]
    if not stopped and any(norm in learns for norm in silent):
        raise NotChecked("pass loss=: some gains get no gradient of a loss that is guessed")
    if stopped:
        reentrant = {call.norm for call in network.calls if call.reentrant}
        yield Found(stopped, case="checkpoint" if reentrant & set(stopped) else "stopped", lost=len(idle))
