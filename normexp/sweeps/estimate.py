"""What runs will cost, before they start: a run of each kind is built, and some of its steps are timed."""

import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from normexp.config.run_spec import RunSpec
from normexp.format import duration
from normexp.norms import evaluation_mode
from normexp.sweeps.options import Options, threads_of
from normexp.training.build import Parts, build
from normexp.training.lightning import keep_freed_memory, length
from normexp.training.result import TRAIN_SAMPLES

MOST_SECONDS = 20.0  # of building and timing; kinds that are left count as the others do on average
TIMED = 0.1  # seconds that are timed at least, after a step that warms up
EVALUATED = 512  # samples that are evaluated to time it
# Measured around steps and evaluations, in seconds of one core; docs/performance.md has the first two.
LOOP_SHARE, LOOP_SECONDS = 0.03, 0.0003  # of a step: recorder, loggers, bar
RUN_SECONDS, SAVE_SECONDS = 0.1, 0.008  # build, folder and summary; records and checkpoints of a validation
THREADS_HELP = 0.7  # n threads take n^-0.7 of the time of one: 0.62 for two
IN_STEPS = {"hessian": 75.0, "covariate_shift": 10.0, "gradient_noise": 10.0, "smoothness": 8.0}
OTHER_IN_STEPS = 3.0  # what a measurement of any other monitor takes


class Estimates:
    """Seconds of runs on one core of an idle machine. One of each kind is built, which refuses what cannot run."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._kinds: dict[str, float | None] = {}
        self._paces: dict[str, tuple[float, float]] = {}

    def seconds(self, spec: RunSpec) -> float | None:
        """Seconds of a run, from its start to its end; None where a GPU computes, or no time is left for timing. Raises
        ValueError for a run that cannot run."""
        kind = kind_of(spec)
        if kind not in self._kinds:
            if self.spent > MOST_SECONDS:
                return None
            started = time.monotonic()
            parts = build(spec)
            on_gpu = parts.config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available()
            self._kinds[kind] = None if on_gpu else self._seconds(parts)
            self.spent += time.monotonic() - started
        return self._kinds[kind]

    def _seconds(self, parts: Parts) -> float:
        pace_key = kind_of(parts.spec, ("model", "norm", "data", "batch_size", "optimizer", "trainer"))
        if pace_key not in self._paces:
            step, evaluate, samples = work_of(parts)
            self._paces[pace_key] = timed(step), timed(evaluate) / samples
        step_seconds, sample_seconds = self._paces[pace_key]
        steps, data = parts.module.total_steps, parts.data
        sizes = {split: len(data.evaluation_loader(split).rows) for split in ("train", "val", "test")}
        limits = length(parts.config)
        validations = max(limits["max_epochs"], 0)
        if "val_check_interval" in limits:
            validations = math.floor(steps / limits["val_check_interval"])
        evaluated = (
            validations * sizes["val"] + min(sizes["train"], TRAIN_SAMPLES) + sizes["val"] + sizes["test"]
        )
        in_steps = 1 + LOOP_SHARE + watching(parts.config["monitor"])
        loop = steps * (step_seconds * in_steps + LOOP_SECONDS) + validations * SAVE_SECONDS
        return RUN_SECONDS + loop + evaluated * sample_seconds

    def describe(self, specs: Sequence[RunSpec], at_once: int, options: Options) -> str:
        """`about 3 min, if 2 run at a time on cores that nothing else uses: 6 core-minutes`."""
        times = [self.seconds(spec) for spec in specs]
        known = [seconds for seconds in times if seconds is not None]
        if not known:
            return "known after the first runs (a GPU computes)"
        mean = sum(known) / len(known)
        threads = [threads_of(spec, options) for spec in specs]
        seconds = [
            (mean if own is None else own) / n**THREADS_HELP for own, n in zip(times, threads, strict=True)
        ]
        wall = max(sum(seconds) / min(at_once, len(specs)), max(seconds))
        used = sum(own * n for own, n in zip(seconds, threads, strict=True))
        most = f"; timed for {len(known)} of {len(specs)} runs" if len(known) < len(specs) else ""
        queue = ", without the wait in a queue" if options.place == "slurm" else ""
        together = f"if {min(at_once, len(specs))} run at a time on cores that nothing else uses{queue}"
        return f"about {duration(wall)}, {together}: {core_minutes(used)}{most}"


def kind_of(spec: RunSpec, names: Sequence[str] = ()) -> str:
    """A text that is equal for runs that build alike and take equally long: all values, or those named, but seed and
    rate, and those of data and optimizer if they follow."""
    config = spec.config
    kept = {name: config[name] for name in names or config if name not in ("seed", "lr")}
    for group, key in (("data", "seed"), ("optimizer", "lr")):
        if config[group].get(key) == config[key]:
            kept[group] = {**config[group], key: None}
    return json.dumps(kept, default=str)


def core_minutes(seconds: float) -> str:
    """Time of one core for people."""
    return f"{seconds / 60:.3g} core-minutes"


def watching(monitors: dict[str, Any]) -> float:
    """What a configuration's monitors take of a step."""
    nodes = {name: node for name, node in monitors.items() if node and node.get("every_n_steps")}
    return sum(IN_STEPS.get(name, OTHER_IN_STEPS) / node["every_n_steps"] for name, node in nodes.items())


def work_of(parts: Parts) -> tuple[Callable[[], None], Callable[[], None], int]:
    """(a training step of a run, an evaluation of some samples by it, how many)."""
    keep_freed_memory()  # as in training
    trainer = parts.make_trainer(enable_checkpointing=False)
    precision = trainer.precision_plugin
    precision.convert_module(module := parts.module)
    batches = iter(parts.data.train_dataloader())
    batch = precision.convert_input(next(batches))
    module.train()
    fused = not str(parts.config["trainer"].get("precision")).startswith("16")
    made = module.make_optimizers(fused=fused)
    optimizer = made["optimizer"] if isinstance(made, dict) else made

    def step() -> None:
        with precision.train_step_context():
            loss = module.training_step(precision.convert_input(next(batches, batch)), 0)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    samples = parts.data.probe_batch(EVALUATED)[0]

    def evaluate() -> None:
        with evaluation_mode(module), torch.inference_mode(), precision.val_step_context():
            module.evaluated(precision.convert_input(samples))

    return step, evaluate, len(samples)


def timed(work: Callable[[], None]) -> float:
    """Processor seconds of a call on one thread, however busy the machine is."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        work()
        times: list[float] = []
        while sum(times) < TIMED:
            before = time.process_time()
            work()
            times.append(time.process_time() - before)
    finally:
        torch.set_num_threads(threads)
    return sorted(times)[len(times) // 4]  # others, who are busy, only slow it down
