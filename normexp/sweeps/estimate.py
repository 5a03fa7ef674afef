"""What runs will cost, before they start: a run of each kind is built, and some of its steps are timed."""

import json
import time
from collections.abc import Callable, Sequence

import torch

from normexp.config.run_spec import RunSpec
from normexp.format import duration
from normexp.norms import evaluation_mode
from normexp.sweeps.options import Options, threads_of
from normexp.training.build import Parts, build
from normexp.training.lightning import length
from normexp.training.result import TRAIN_SAMPLES

MOST_SECONDS = 20.0  # of building and timing; kinds that are left count as the others do on average
TIMED = 0.1  # seconds that are timed at least, after a step that warms up
EVALUATED = 512  # samples that are evaluated to time it
# Measured around steps, in seconds of one core: build, folder and summary; a validation's records and checkpoints; a
# step's recorder, loggers and bar. docs/performance.md has them.
RUN_SECONDS, SAVE_SECONDS, LOOP_SECONDS = 0.1, 0.008, 0.0003
THREADS_HELP = 0.7  # n threads take n^-0.7 of the time of one: 0.62 for two
# What a measurement of a monitor takes in training steps.
IN_STEPS = {"hessian": 75.0, "covariate_shift": 10.0, "gradient_noise": 10.0, "smoothness": 8.0}
OTHER_IN_STEPS = 3.0


class Estimates:
    """Seconds of runs on one core of an idle machine. One of each kind is built, which refuses what cannot run."""

    def __init__(self) -> None:
        self.spent = 0.0
        self._kinds: dict[str, float | None] = {}

    def seconds(self, spec: RunSpec) -> float | None:
        """Seconds of a run, from its start to its end; None where a GPU computes, or no time is left for timing. Raises
        ValueError for a run that cannot run."""
        kind = kind_of(spec)
        if kind not in self._kinds:
            if self.spent > MOST_SECONDS:
                return None
            started = time.monotonic()
            parts = build(spec)
            on_gpu = spec.config["trainer"].get("accelerator") != "cpu" and torch.cuda.is_available()
            self._kinds[kind] = None if on_gpu else seconds_of(parts)
            self.spent += time.monotonic() - started
        return self._kinds[kind]

    def describe(self, specs: Sequence[RunSpec], at_once: int, options: Options) -> str:
        """`about 3 min, if 2 run at a time on cores that nothing else uses: 6 core-minutes`."""
        times = [self.seconds(spec) for spec in specs]
        known = [seconds for seconds in times if seconds is not None]
        if not known:
            return "known after the first runs (a GPU computes)"
        threads, at_once = [threads_of(spec, options) for spec in specs], min(at_once, len(specs))
        alone = [own if own is not None else sum(known) / len(known) for own in times]
        seconds = [own / n**THREADS_HELP for own, n in zip(alone, threads, strict=True)]
        used = sum(own * n for own, n in zip(seconds, threads, strict=True))
        wall = duration(max(sum(seconds) / at_once, max(seconds)))
        text = (
            f"about {wall}, if {at_once} run at a time on cores that nothing else uses: {core_minutes(used)}"
        )
        return text + (f"; timed for {len(known)} of {len(specs)} runs" if len(known) < len(specs) else "")


def kind_of(spec: RunSpec) -> str:
    """A text that is equal for runs that build alike and take equally long: all values but seed and rate, and those of
    data and optimizer if they follow."""
    config = spec.config
    kept = {**config, "seed": None, "lr": None}
    for group, key in (("data", "seed"), ("optimizer", "lr")):
        if config[group].get(key) == config[key]:
            kept[group] = {**config[group], key: None}
    return json.dumps(kept, default=str)


def core_minutes(seconds: float) -> str:
    """Time of one core for people."""
    return f"{seconds / 60:.3g} core-minutes"


def seconds_of(parts: Parts) -> float:
    """Seconds of a run by some of its steps, which are timed."""
    step, evaluate, samples = work_of(parts)
    monitors = [(name, node.get("every_n_steps")) for name, node in parts.config["monitor"].items() if node]
    watching = sum(IN_STEPS.get(name, OTHER_IN_STEPS) / pace for name, pace in monitors if pace)
    steps, limits = parts.module.total_steps, length(parts.config)
    validations = max(limits["max_epochs"], 0)
    if "val_check_interval" in limits:
        validations = steps // limits["val_check_interval"]
    train, val, test = (len(parts.data.evaluation_loader(split).rows) for split in ("train", "val", "test"))
    evaluated = validations * val + min(train, TRAIN_SAMPLES) + val + test
    loop = steps * (timed(step) * (1 + watching) + LOOP_SECONDS) + validations * SAVE_SECONDS
    return RUN_SECONDS + loop + evaluated * timed(evaluate) / samples


def work_of(parts: Parts) -> tuple[Callable[[], None], Callable[[], None], int]:
    """(a training step of a run, an evaluation of some samples by it, how many)."""
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
