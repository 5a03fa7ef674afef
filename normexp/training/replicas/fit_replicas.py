"""Train several runs together. Each ends as it would have ended alone."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd
from torch.optim import SGD, Adagrad, Adam, AdamW, NAdam, RAdam, RMSprop
from torchvision.ops import StochasticDepth

from normexp.data.base import BatchLoader, DataModule
from normexp.norms import NoisyBatchNorm, PowerNorm
from normexp.training.checkpoint import GeneratorState, checkpoints_of
from normexp.training.fit import resumed_from, trainer_of
from normexp.training.lightning import keep_freed_memory
from normexp.training.loggers.records import open_records
from normexp.training.progress import TimedProgressBar
from normexp.training.replicas.replica import Replica, put_together
from normexp.training.replicas.replica_module import ReplicaModule
from normexp.training.summarize import needs_population_statistics
from normexp.training.survive import StopOnSignal

if TYPE_CHECKING:
    from normexp.training.train import Parts

ELEMENTWISE = (SGD, Adam, AdamW, NAdam, RAdam, RMSprop, Adagrad)


def why_not(parts: "Parts") -> str | None:
    """In a few words, why this run is not trained together with runs of other seeds and learning rates; None if it is.
    A layer of your own can set `one_by_one = True` in its class."""
    config, module = parts.config, parts.module
    trainer, optimizer = config["trainer"], module.make_optimizer.func
    layers = list(module.model.modules())
    reasons = {
        "nothing is trained": config["max_steps"] == 0 or config["fast_dev_run"],
        f"compile={str(config['compile']).lower()}": config["compile"],
        "early stopping ends each at a step of its own": config["early_stopping"] is not None,
        "label smoothing": config["label_smoothing"] > 0,
        "gradients are accumulated": trainer.get("accumulate_grad_batches", 1) != 1,
        "several devices": trainer.get("devices", 1) != 1,
        "precision=16 scales the loss of all together": str(trainer.get("precision")).startswith("16"),
        "dropout would draw other masks than alone": any(
            isinstance(layer, _DropoutNd | StochasticDepth) and layer.p > 0 for layer in layers
        ),
        f"{optimizer.__name__} does not work elementwise": optimizer not in ELEMENTWISE,
        "population statistics are recomputed run by run": needs_population_statistics(module),
        "freeze_after reads the number of steps": any(
            getattr(layer, "freeze_after", None) is not None for layer in layers
        ),
        "NoisyBatchNorm draws numbers": any(isinstance(layer, NoisyBatchNorm) for layer in layers),
        "PowerNorm keeps a state in its backward pass": any(isinstance(layer, PowerNorm) for layer in layers),
        "a layer says one_by_one": any(getattr(layer, "one_by_one", False) for layer in layers),
    }
    return next((words for words, holds in reasons.items() if holds), None)


class ReplicaLoader(BatchLoader):
    """Batches (R N, ...): the batches of all replicas' loaders, one after the other."""

    def __init__(self, own: list[DataModule]):
        self.loaders = [data.train_dataloader() for data in own]
        first = self.loaders[0]
        made = {"augmentation": first.augmentation, "tasks": first.tasks, "progress": first.progress}
        super().__init__(first.rows, first.order, **made)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if all(loader.rows is self.rows for loader in self.loaders):
            return super().__iter__()
        batches = zip(*self.loaders, strict=True)
        return ([torch.cat(side) for side in zip(*batch, strict=True)] for batch in batches)

    def plan_epoch(self, epoch: int) -> tuple[Tensor, Tensor | None]:
        indices, draws = zip(*(loader.plan_epoch(epoch) for loader in self.loaders), strict=True)
        return torch.cat(indices, 1), None if draws[0] is None else torch.cat(draws, 1)

    def load_state_dict(self, state: dict[str, int]) -> None:
        super().load_state_dict(state)
        for loader in self.loaders:
            loader.load_state_dict(state)


def fit_replicas(all_parts: Sequence["Parts"], folders: Sequence[Path], console: Console) -> None:
    """Train to the end. If the folders have a `last.ckpt`, resume from it; all must be of the same step. Each summary
    is written when its replica ends. A diverged replica ends before the others."""
    keep_freed_memory()
    rates = [parts.module.make_optimizer.keywords.get("lr", parts.config["lr"]) for parts in all_parts]
    module = ReplicaModule([parts.module for parts in all_parts], rates)
    saved = [folder / "checkpoints" / "last.ckpt" for folder in folders]
    begun = all(path.exists() for path in saved)
    resumed = list(map(resumed_from, all_parts, saved)) if begun else []
    with contextlib.ExitStack() as stack:
        for index, (parts, folder) in enumerate(zip(all_parts, folders, strict=True)):
            loggers = stack.enter_context(open_records(parts, folder, resumed[index] if resumed else None))
            replica = Replica(index, len(all_parts), parts, folder, loggers, module.shares[index])
            module.replicas.append(replica)
        stop = StopOnSignal(module.save)
        bar = TimedProgressBar([replica.recorder for replica in module.replicas], console)
        callbacks = [stop, *module.replicas, bar, GeneratorState()]
        together = put_together(resumed, module.fastest) if resumed else None
        trainer = trainer_of(
            all_parts[0], module, callbacks, together, console, logger=False, enable_checkpointing=False
        )
        for parts in all_parts:
            parts.data.trainer = trainer
        loader = ReplicaLoader([parts.data for parts in all_parts])
        with stop:
            val = all_parts[0].data.val_dataloader()
            with checkpoints_of(trainer).at_once():
                trainer.fit(module, loader, val, ckpt_path=saved[0] if resumed else None)
            for replica in module.active:
                replica.finish()
