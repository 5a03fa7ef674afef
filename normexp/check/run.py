"""The check itself, `normexp.check(module, loader)`, and a Lightning callback that checks before the first batch."""

import time
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.rank_zero import rank_zero_info
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from normexp.check.finding import declared
from normexp.check.inputs import PRECISIONS, CheckOptions, Data, FirstBatch, length_of, matched, two_batches
from normexp.check.network import Network
from normexp.check.own_optimizer import joined, optimizer_of
from normexp.check.result import SEVERITIES, NotChecked, Result
from normexp.check.rules import Rules, read_baseline
from normexp.check.sources import sources_of
from normexp.config.errors import why
from normexp.format import pluralize
from normexp.monitors.batches import Step, as_step, target_name
from normexp.monitors.guard import (
    LAZY,
    NoTarget,
    WrongLoss,
    is_lazy,
    passes_as_in,
    require_network,
    same_random,
)
from normexp.norms.layers import is_norm


@same_random()  # also where a finding draws other inputs
def check(module: nn.Module, loader: Any = None, **options: Any) -> Result:
    """`normexp.check`, see there. `options` are those of `CheckOptions`; an unknown one raises TypeError."""
    begun, given = time.perf_counter(), CheckOptions(**options)
    if isinstance(module, DistributedDataParallel):  # its passes would wait for the other processes
        module, given.broadcasts = module.module, module.broadcast_buffers
    name = type(module).__name__
    known = read_baseline(given.baseline) if given.baseline else {}
    rules = Rules(list(declared()), given.select, given.ignore, known)
    require_network("module", module)
    require_watchable(module, given.loss)
    if given.averaged is not None and not matched(given.averaged, module, "averaged="):
        raise ValueError("averaged=: has no parameter of the module; pass the averaged copy of this network")
    if given.state_dict is not None:
        matched(given.state_dict, module, "state_dict=")
    data = two_batches(loader, module, given.samples, given.seed)
    given.optimizer, absent = optimizer_of(module, given.optimizer)
    network = _called(module, loader, data, given)
    if data.size is not None and data.size > given.samples:
        cut = f"batches cut from {data.size} to {pluralize(given.samples, 'sample')}; set by samples= (--samples)"
        data.notes.append(cut if network.cut else "batches are not cut: a part of one fails")
    if isinstance(network.attempt.error, WrongLoss):
        raise network.attempt.error
    if not network.norms and not network.attempt.heard:
        raise ValueError(f"module={name}: {without_norms(network)}; there is nothing to check")
    result = Result(name)
    for id, kind in declared().items():
        if not rules.asks(id):
            continue
        try:
            findings = kind.findings(network)
            result.findings += findings
            result.healthy += [] if findings else [id]
        except NotChecked as reason:
            result.not_checked[id] = str(reason)
        except Exception as error:  # of a user's network in an extra pass
            result.not_checked[id] = f"an extra pass through the network fails: {why(error)}"
    result.findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    result.norms = network.in_words()
    result.facts = [
        network.in_short(),
        *network.not_understood(),
        *data.notes,
        *([f"{absent}: pass optimizer="] if absent else []),
    ]
    rules.judge(result)
    result.sources = sources_of(
        network.root, [layer for f in result.findings + result.ignored for layer in f.layers]
    )
    result.seconds = time.perf_counter() - begun
    return result


def _called(module: nn.Module, loader: Any, data: Data, given: CheckOptions) -> Network:
    """The network, by the first way of a training pass that does not fail: with cut batches, with whole ones, with its
    targets, without a loss that needs them. What of it the user should know goes to `data.notes`."""
    step = as_step(module, given.loss, probe=True)

    def tried(step: Step) -> Network:
        return Network(step, data.batches, data.size, loader, given, given.samples)

    network = tried(step)
    if network.attempt.error is not None and data.size is not None and data.size > given.samples:
        whole = Network(step, data.whole, data.size, loader, given)
        if whole.attempt.error is None:  # its tensors do not all begin with samples
            network = whole
    takes = "" if given.loss or step is module else target_name(module, data.whole.training)
    if network.attempt.error is not None and takes:
        with_targets = tried(Step(module, probe=True, takes=takes))
        network = with_targets if with_targets.attempt.error is None else network
    if loader is None and step is module and network.attempt.error is not None:
        raise ValueError(
            f"loader: random inputs are no batch of its training_step ({why(network.attempt.error)}); pass data"
        )
    if isinstance(network.attempt.error, NoTarget) and isinstance(loader, FirstBatch):
        # A loop shows what its network takes, and no targets.
        network = tried(as_step(module, probe=True))
        data.notes.append("loss= needs targets and is left out; run the loop over w.over(loader)")
    if isinstance(given.loss, nn.Module) and any(map(is_norm, given.loss.modules())):
        data.notes.append(
            "norms of loss= are not checked; pass a module that holds both, with a training_step"
        )
    return network


def without_norms(network: Network) -> str:
    """Why no norm of a network can be checked, as far as its training pass tells."""
    seen = network.attempt
    if any(isinstance(layer, nn.LocalResponseNorm) for layer in network.modules.values()):
        return "has LocalResponseNorm alone, of which nothing is known"
    if seen.hidden:
        path, reason = next(iter(seen.hidden.items()))
        return f"{path} {reason}"
    if seen.changed:
        path, names = next(iter(seen.changed.items()))
        changed = f"{path or 'the network'} changes {', '.join(names)} as it trains, not as BatchNorm does"
        return f"has no normalization layer that is known ({changed})"
    return "has no normalization layer that is known"


def require_watchable(module: nn.Module, loss: Any) -> None:
    """Raise a ValueError with one line unless passes through a module can be made and watched."""
    name = f"module={type(module).__name__}"
    if any(isinstance(layer, torch.jit.ScriptModule) for layer in module.modules()):
        raise ValueError(
            f"{name}: is scripted or traced, and its layers hide; pass the module it was made of"
        )
    if is_lazy(module):
        raise ValueError(f"{name}: {LAZY}")
    if not any(p.is_floating_point() or p.is_complex() for p in module.parameters()):
        raise ValueError(f"{name}: has no parameters; pass a network or a LightningModule that trains")
    if any(p.is_meta for p in module.parameters()):
        raise ValueError(f"{name}: has parameters without numbers, on `meta`; pass it with its weights")
    if loss is None and not getattr(module, "automatic_optimization", True):
        raise ValueError(
            "module: its training_step takes steps itself (automatic_optimization=False); pass its network, and loss="
        )


class CheckNorms(Callback):
    """Checks the network with the first batch of `fit`, or of a loop of one's own under
    `normexp.watch(model, monitors=[CheckNorms()])`, and says what it found. The training keeps its bits.

    Args:
        strict: stop with an error if there is an error or a warning.
        options: of `check`: select, ignore, baseline, mask, ...; what is not said is taken from the trainer.
    """

    def __init__(self, *, strict: bool = False, **options: Any) -> None:
        self.strict, self.options, self.asked = strict, options, False
        # a typo is said at once
        CheckOptions(**options)
        Rules(list(declared()), options.get("select", ()), options.get("ignore", ()))
        self.result: Result | None = None

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self.asked:
            return
        self.asked = True
        steps = trainer.num_training_batches  # infinite where a loader has no length
        try:
            known = {
                "optimizer": joined(trainer.optimizers),
                "devices": trainer.world_size,
                "precision": trainer.precision if trainer.precision in PRECISIONS else None,
                "accumulate": trainer.accumulate_grad_batches,
                "steps": steps if isinstance(steps, int) else None,
            }
            network: nn.Module = module
            if isinstance(module, Step):  # of a loop
                network, known["loss"] = module.model, module.loss
            elif isinstance(wrapped := trainer.strategy.model, DistributedDataParallel):
                network = wrapped
            with passes_as_in(trainer):
                first = FirstBatch([batch])
                if trainer.world_size == 1 and steps == length_of(trainer.train_dataloader):
                    first.loader = trainer.train_dataloader
                self.result = check(network, first, **known | self.options)
        except Exception as error:  # an instrument ends no training
            if self.strict:
                raise
            rank_zero_info(f"CheckNorms: nothing was checked, and the training goes on: {why(error)}")
            return
        rank_zero_info(str(self.result))
        if self.strict and not self.result.ok:
            raise ValueError(str(self.result))
