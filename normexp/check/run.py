"""The check itself, `normexp.check(module, loader)`, and a Lightning callback that checks before the first batch."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.rank_zero import rank_zero_info
from torch import Tensor, nn

from normexp.check.finding import declared
from normexp.check.inputs import PRECISIONS, CheckOptions, as_step, two_batches
from normexp.check.network import Network
from normexp.check.own_optimizer import flat, joined, optimizer_of
from normexp.check.result import SEVERITIES, NotChecked, Result
from normexp.check.rules import Rules, read_baseline
from normexp.check.sources import sources_of
from normexp.format import require_at_least


def check(
    module: nn.Module,
    loader: Any = None,
    *,
    loss: Callable[..., Tensor] | None = None,
    samples: int = 32,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    baseline: str | Path | None = None,
    **options: Any,
) -> Result:
    """Find what is wrong with the norms of a network, by a few passes on a copy of its state. The network, its buffers,
    its gradients and all random states stay as they are.

    Args:
        module: a network, or a LightningModule, whose `training_step` is used.
        loader: a loader, a data module, or one batch: a tensor, (inputs, targets), or a mapping that the network takes
            by name. Without it, random images, rows or tokens are made up.
        loss: `loss(output, target)`. Without it: the loss that the network returns, cross-entropy for targets of whole
            numbers, squared error for targets in the output's shape.
        samples: batches are cut to this many samples.
        select: ids of the findings that are asked; all by default.
        ignore: ids of findings that do not count, everywhere or at some layers: `small_batch`, `small_batch@stem.*`.
        baseline: a file of `normexp check --write-baseline`; what it has does not count.
        options: what is known of the training: optimizer, precision, accumulate, devices, averaged, state_dict, mask,
            steps, seed; see `normexp.check.inputs.CheckOptions`.

    Raises:
        ValueError: an unknown precision or id, a baseline that cannot be read, no parameter or no norm in the network,
            no samples, or a module whose input is not known.
        TypeError: another option.
    """
    begun, given, name = time.perf_counter(), CheckOptions(**options), type(module).__name__
    rules = Rules(list(declared()), select, ignore, read_baseline(baseline) if baseline else {})
    require_at_least("samples", samples, 1)
    if not isinstance(module, nn.Module) or not any(p.is_floating_point() for p in module.parameters()):
        raise ValueError(f"module={name}: has no parameters; pass a network or a LightningModule that trains")
    if loss is None and not getattr(module, "automatic_optimization", True):
        raise ValueError(
            "module: its training_step takes steps itself (automatic_optimization=False); pass its network, and loss="
        )
    step = as_step(module, loss)
    batches, batch_size, said = two_batches(loader, module, samples, given.seed)
    if given.optimizer is None:
        given.optimizer, reason = optimizer_of(module)
        said += [f"{reason}: pass optimizer="] if reason else []
    elif isinstance(given.optimizer, (list, tuple)):
        given.optimizer = joined(flat(given.optimizer))
    network = Network(step, batches, batch_size, loader, given)
    if not network.places:
        raise ValueError(f"module={name}: has no normalization layer; there is nothing to check")
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
    result.findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    counts = Counter(type(place.module).__name__ for place in network.places)
    norms = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    result.facts = [f"{norms}; {network.samples} samples a pass; loss: {network.loss}", *said]
    rules.judge(result)
    result.sources = sources_of(
        network.root, [layer for f in result.findings + result.ignored for layer in f.layers]
    )
    result.seconds = time.perf_counter() - begun
    return result


class CheckNorms(Callback):
    """Checks the network with the first batch of `fit` and says what it found. The training keeps its bits.

    Args:
        strict: stop with an error if there is an error or a warning.
        options: of `check`: select, ignore, baseline, mask, ...; what is not said is taken from the trainer.
    """

    def __init__(self, *, strict: bool = False, **options: Any) -> None:
        self.strict, self.options = strict, options
        Rules(
            list(declared()), options.get("select", ()), options.get("ignore", ())
        )  # a typo is said at once
        self.result: Result | None = None

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self.result is not None:
            return
        steps = trainer.num_training_batches  # infinite where a loader has no length
        known = {
            "optimizer": joined(trainer.optimizers),
            "devices": trainer.world_size,
            "precision": trainer.precision if trainer.precision in PRECISIONS else None,
            "accumulate": trainer.accumulate_grad_batches,
            "steps": steps if isinstance(steps, int) else None,
        }
        self.result = result = check(module, [batch], **known | self.options)
        rank_zero_info(str(result))
        if self.strict and not result.ok:
            raise ValueError(str(result))
