"""Train several runs together. Each ends as it would have ended alone."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from normexp.config.run_parts import Parts
from normexp.training.checkpoint import checkpoints_of, load_to_resume
from normexp.training.fit import trainer_of
from normexp.training.generator_state import GeneratorState
from normexp.training.interrupt import StopOnSignal
from normexp.training.lightning import quiet_lightning
from normexp.training.memory import keep_freed_memory
from normexp.training.progress import TimedProgressBar
from normexp.training.records import open_records
from normexp.training.replicas.replica import Replica
from normexp.training.replicas.replica_checkpoint import put_together
from normexp.training.replicas.replica_data import ReplicaLoader
from normexp.training.replicas.replica_module import ReplicaModule


def fit_replicas(all_parts: Sequence[Parts], folders: Sequence[Path], console: Console) -> None:
    """Train to the end. If the folders have a `last.ckpt`, resume from it; all must be of the same step. Each summary
    is written when its replica ends. A diverged replica ends before the others."""
    quiet_lightning()
    keep_freed_memory()
    rates = [parts.module.make_optimizer.keywords.get("lr", parts.config["lr"]) for parts in all_parts]
    module = ReplicaModule([parts.module for parts in all_parts], rates)
    saved = [folder / "checkpoints" / "last.ckpt" for folder in folders]
    resumed = [load_to_resume(path) for path in saved] if all(path.exists() for path in saved) else []
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
            all_parts[0], module, callbacks, together, logger=False, enable_checkpointing=False
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
