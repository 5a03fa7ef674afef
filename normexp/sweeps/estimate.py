"""What runs will cost: processor time from a few real steps of each kind, and the memory that they took."""

import copy
import json
import math
import time
from collections.abc import Callable
from typing import Any

import torch

from normexp.config.run_spec import RunSpec, kind_of
from normexp.machine import own_memory
from normexp.norms import evaluation_mode
from normexp.training.length import length
from normexp.training.lightning import keep_freed_memory
from normexp.training.replicas.fit_replicas import ReplicaModule, why_not
from normexp.training.summarize import TRAIN_SAMPLES
from normexp.training.train import Parts, build

TIMED = 0.1  # seconds that are timed at least, after a step that warms up
EVALUATED = 512  # samples that are evaluated to time it
# Measured around steps and evaluations, in seconds of one core; docs/performance.md has the first two.
LOOP_SHARE, LOOP_SECONDS = 0.03, 0.0003  # of a step: recorder, loggers, bar
RUN_SECONDS, SAVE_SECONDS = 0.1, 0.008  # build, folder and summary; records and checkpoints of a validation
THREADS_HELP = 0.7  # n threads take n^-0.7 of the time of one: 0.62 for two
SHARED = 100 * 2**20  # bytes of the files of libraries, as far as a run reads them
IN_STEPS = {"hessian": 75.0, "covariate_shift": 10.0, "gradient_noise": 10.0, "smoothness": 8.0}
OTHER_IN_STEPS = 3.0  # what a measurement of any other monitor takes


class Estimates:
    """Seconds of runs on a CPU. One of each kind is built, which refuses what cannot run; a step is timed for each
    model, norm, data, batch size, optimizer and trainer.

    Args:
        each_norm: False times one norm for all, and builds nothing else.

    Attributes:
        memory: bytes of a process that trains one of them: about what this process holds.
    """

    def __init__(self, *, each_norm: bool = True) -> None:
        self.each_norm = each_norm
        self.memory = 0
        self._runs: dict[Any, float | None] = {}
        self._paces: dict[str, tuple[float, float]] = {}

    def seconds(self, spec: RunSpec, together: int = 1) -> float | None:
        """Seconds of a run, from its start to its end, in its share of `together` replicas; None on a GPU. Raises
        ValueError for one that cannot run."""
        kind = (kind_of(spec) if self.each_norm else self._key(spec, together)), together
        if kind not in self._runs:
            parts = build(spec)
            on_gpu = parts.config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available()
            self._runs[kind] = None if on_gpu else self._seconds(parts, together)
            self.memory = max(self.memory, own_memory() + SHARED)
        return self._runs[kind]

    def _key(self, spec: RunSpec, together: int) -> str:
        names = ["model", *(["norm"] if self.each_norm else []), "data", "batch_size", "optimizer", "trainer"]
        length = [] if self.each_norm else ["max_steps", "max_epochs", "val_every_n_steps", "monitor"]
        kept = {**json.loads(kind_of(spec)), "seed": together}
        return json.dumps([kept[name] for name in (*names, *length, "seed")])

    def _seconds(self, parts: Parts, together: int) -> float:
        if together > 1 and why_not(parts):
            together = 1  # they are trained one by one
        key = self._key(parts.spec, together)
        if key not in self._paces:
            self._paces[key] = pace_of(parts, together)
        step, sample = self._paces[key]
        steps, data = parts.module.total_steps, parts.data
        sizes = {split: len(data.evaluation_loader(split).rows) for split in ("train", "val", "test")}
        asked = length(parts.config)
        epochs = asked["max_epochs"] if asked["max_epochs"] > 0 else 0
        validations = (
            math.floor(steps / asked["val_check_interval"]) if "val_check_interval" in asked else epochs
        )
        final = min(sizes["train"], TRAIN_SAMPLES) + sizes["val"] + sizes["test"]
        evaluated = validations * sizes["val"] + final
        in_steps = 1 + LOOP_SHARE + watching(parts.config["monitor"])
        loop = steps * (step * in_steps + LOOP_SECONDS) + validations * SAVE_SECONDS
        return RUN_SECONDS + loop + evaluated * sample


def watching(monitors: dict[str, Any]) -> float:
    """What a configuration's monitors take of a step."""
    nodes = {name: node for name, node in monitors.items() if node and node.get("every_n_steps")}
    return sum(IN_STEPS.get(name, OTHER_IN_STEPS) / node["every_n_steps"] for name, node in nodes.items())


def pace_of(parts: Parts, together: int) -> tuple[float, float]:
    """(seconds of a training step, seconds of an evaluated sample) of one run of those that train together."""
    step, evaluate, samples = work_of(parts, together)
    return timed(step) / together, timed(evaluate) / samples


def work_of(parts: Parts, together: int = 1) -> tuple[Callable[[], None], Callable[[], None], int]:
    """(a training step of runs that train together, an evaluation of some samples by one of them, how many)."""
    keep_freed_memory()  # as in training; and what a step needed is counted after it
    trainer = parts.make_trainer(logger=False, enable_checkpointing=False, enable_progress_bar=False)
    precision = trainer.precision_plugin
    precision.convert_module(module := parts.module)
    batches = iter(parts.data.train_dataloader())
    batch = precision.convert_input(next(batches))
    views = [copy.deepcopy(module) for _ in range(together)] if together > 1 else []
    trained: Any = module
    if views:
        trained = ReplicaModule(views, [1.0] * together)
        trained.bind()
        batch = tuple(part.repeat(together, *[1] * (part.dim() - 1)) for part in batch)
    trained.train()
    fused = not str(parts.config["trainer"].get("precision")).startswith("16")
    weights = list(trained.model.parameters())
    made = module.optimizers_of(weights, fused=fused)
    optimizer = made["optimizer"] if isinstance(made, dict) else made

    def step() -> None:
        own = batch if views else precision.convert_input(next(batches, batch))
        with precision.train_step_context():
            loss = trained.training_step(own, 0)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    samples = parts.data.probe_batch(EVALUATED)[0]

    def evaluate() -> None:
        with evaluation_mode(module), torch.inference_mode(), precision.val_step_context():
            module.evaluated(precision.convert_input(samples))

    return step, evaluate, len(samples)


def timed(work: Callable[[], None]) -> float:
    """Seconds of a call on an otherwise idle machine: the processor time of one thread, shared by those of the run.

    Threads that wait for each other spin, and on a busy machine they spin for most of their time.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        work()
        each: list[float] = []
        while sum(each) < TIMED:
            before = time.process_time()
            work()
            each.append(time.process_time() - before)
    finally:
        torch.set_num_threads(threads)
    return sorted(each)[len(each) // 4] / threads**THREADS_HELP  # others, who are busy, only slow it down
