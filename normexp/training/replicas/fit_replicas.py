"""Train several runs side by side, each of which ends as it would have ended alone."""

import contextlib
import copy
import functools
from pathlib import Path

import torch
from rich.console import Console
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW, NAdam, RAdam, RMSprop

from normexp.config.code import REPLICAS
from normexp.config.run_parts import Parts
from normexp.runs import write_summary, write_test_examples
from normexp.training.checkpoint import BestCheckpoint, LastCheckpoint, WholeCheckpoints, load_to_resume
from normexp.training.code_record import CodeRecord
from normexp.training.ending import EndingFitLoop
from normexp.training.epoch_loop import PlainEpochLoop
from normexp.training.generator_state import GeneratorState
from normexp.training.interrupt import StopOnSignal
from normexp.training.length import length
from normexp.training.lightning import quiet_lightning
from normexp.training.memory import keep_freed_memory
from normexp.training.precise_batchnorm import needs_population_statistics
from normexp.training.progress import TimedProgressBar
from normexp.training.recorder import Recorder
from normexp.training.records import open_records
from normexp.training.replicas.replica import EachReplica, Replica
from normexp.training.replicas.replica_checkpoint import put_together
from normexp.training.replicas.replica_data import ReplicaData
from normexp.training.replicas.replica_module import ReplicaModule
from normexp.training.summarize import final_metrics, hyperparameter_metrics, hyperparameters, summarize

ELEMENTWISE = (SGD, Adam, AdamW, NAdam, RAdam, RMSprop, Adagrad)


def why_not(parts: Parts) -> str | None:
    """What keeps a configuration's replicas from being trained side by side, in a few words; None if nothing does."""
    config, module = parts.config, parts.module
    trainer = config["trainer"]
    dropouts = [m for m in module.model.modules() if isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0]
    reasons = {
        "nothing is trained": config["max_steps"] == 0 or config["fast_dev_run"],
        f"compile={str(config['compile']).lower()}": config["compile"],
        "gradients are accumulated": trainer.get("accumulate_grad_batches", 1) != 1,
        "several devices": trainer.get("devices", 1) != 1,
        "precision=16 scales the loss of all together": str(trainer.get("precision")).startswith("16"),
        "dropout would draw other masks than alone": bool(dropouts),
        f"{module.make_optimizer.func.__name__} does not work elementwise": module.make_optimizer.func
        not in ELEMENTWISE,
        "population statistics are recomputed run by run": needs_population_statistics(module),
    }
    return next((words for words, holds in reasons.items() if holds), None) or _rehearse(parts)


def _rehearse(parts: Parts) -> str | None:
    """One pass of two copies under vmap: layers that read values or draw numbers cannot be stacked, and say so. One
    pass of another copy: layers that keep what vmap would lose do not say so."""
    *views, plain = [copy.deepcopy(parts.module) for _ in range(3)]
    x, y = parts.data.probe_batch(parts.config["batch_size"])
    like = next(plain.parameters())
    x = x.to(like.dtype) if x.is_floating_point() else x
    with torch.random.fork_rng(devices=[]):
        try:
            module = ReplicaModule(views, [1.0, 1.0])
            module.together(torch.stack([x, x]), torch.stack([y, y]))
        except (RuntimeError, ValueError) as error:
            return str(error).strip().split("\n")[0]
        before = _kept(plain.model)
        plain.model(x)
    for (layer, name), value in _kept(plain.model).items():
        old = before.get((layer, name))
        if value is not old if isinstance(value, torch.Tensor) else value != old:
            return f"layer {layer} sets self.{name} anew at each step; update a buffer in place"
    return None


def _kept(model: nn.Module) -> dict[tuple[str, str], object]:
    """What the layers of a network remember beside its parameters."""
    return {
        (layer, name): value
        for layer, module in model.named_modules()
        for name, value in {**vars(module), **module._buffers}.items()
        if value is None or isinstance(value, (int, float, str, torch.Tensor))
    }


def fit_replicas(all_parts: list[Parts], folders: list[Path], console: Console) -> None:
    """Train to the end, resuming from the folders' `last.ckpt` if they are there, which must be of the same step. Each
    summary is written when its replica is trained, that of a diverged one before the others end."""
    quiet_lightning()
    keep_freed_memory()
    first = all_parts[0]
    rates = [parts.module.make_optimizer.keywords.get("lr", parts.config["lr"]) for parts in all_parts]
    module = ReplicaModule([parts.module for parts in all_parts], rates)
    paths = [folder / "checkpoints" / "last.ckpt" for folder in folders]
    resume = all(path.exists() for path in paths)
    with contextlib.ExitStack() as stack:
        replicas = []
        for index, (parts, folder, path) in enumerate(zip(all_parts, folders, paths, strict=True)):
            recorder = Recorder(parts.config["log_every_n_steps"])
            resumed = load_to_resume(path) if resume else None
            loggers = stack.enter_context(open_records(folder, resumed))
            replica = Replica(index, parts, folder, recorder, loggers, module.shares[index])
            checkpoints = [BestCheckpoint(path.with_name("best.ckpt")), LastCheckpoint(path)]
            code = CodeRecord(parts.config, REPLICAS)
            replica.callbacks = [recorder, code, *parts.monitors, GeneratorState(), *checkpoints]
            replica.resumed_from = resumed
            replica.finish = functools.partial(finish, count=len(all_parts))
            replicas.append(replica)
        each = EachReplica(replicas)
        stop = StopOnSignal(lambda trainer: each.save())
        trainer = first.make_trainer(
            **length(first.config),
            callbacks=[stop, each, TimedProgressBar(replicas[0].recorder, console), GeneratorState()],
            logger=False,
            enable_checkpointing=False,
            num_sanity_val_steps=0,
            enable_model_summary=False,
            use_distributed_sampler=False,
            log_every_n_steps=2**31,
        )
        PlainEpochLoop.install(trainer)
        EndingFitLoop.install(trainer)
        trainer.precision_plugin.convert_module(module)  # before a checkpoint is loaded, as for a run alone
        together = (
            put_together([r.resumed_from for r in replicas], module, module.fastest) if resume else None
        )
        trainer.strategy.checkpoint_io = WholeCheckpoints(together)
        data = ReplicaData([parts.data for parts in all_parts])
        data.trainer = trainer
        for parts in all_parts:
            parts.data.trainer = trainer
        with stop:
            trainer.fit(module, datamodule=data, ckpt_path=paths[0] if resume else None)
            for replica in each.active:
                finish(replica, count=len(all_parts))


def finish(replica: Replica, count: int) -> None:
    """The last numbers of a trained replica; its run is finished."""
    metrics, examples = final_metrics(replica.parts, replica)
    summary = summarize(replica.parts, replica.recorder, replica, metrics)
    summary["execution"] |= {"mode": "replica", "replicas": count}
    for logger in replica.loggers:
        logger.log_hyperparams(hyperparameters(summary), hyperparameter_metrics(summary))
        logger.save()  # the others may train on for hours
    write_test_examples(replica.folder, examples)
    write_summary(replica.folder, summary)
