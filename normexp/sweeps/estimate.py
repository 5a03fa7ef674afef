"""What runs will cost, before they start: a run of each kind is built, and some of its steps are timed."""

import json
import time
from collections.abc import Callable, Sequence

import torch

from normexp.config.run_spec import RunSpec
from normexp.format import duration
from normexp.training.build import Parts, build
from normexp.training.lightning import length

MOST_SECONDS = 20.0  # of building and timing; kinds that are left count as the others do on average
TIMED = 0.1  # seconds that are timed at least, after a step that warms up
# Measured around steps, in seconds of one core: build, folder and summary; a validation's records and checkpoints; a
# step's recorder, loggers and bar. scripts/research/performance.md has them.
RUN_SECONDS, SAVE_SECONDS, LOOP_SECONDS = 0.1, 0.008, 0.0003
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

    def describe(self, specs: Sequence[RunSpec], at_once: int) -> str:
        """`about 3 min, if 2 run at a time on cores that nothing else uses: 6 core-minutes`."""
        times = [self.seconds(spec) for spec in specs]
        known = [seconds for seconds in times if seconds is not None]
        if not known:
            return "known after the first runs (a GPU computes)"
        at_once, mean = min(at_once, len(specs)), sum(known) / len(known)
        wall, total = max(mean * len(specs) / at_once, max(known)), core_minutes(mean * len(specs))
        text = f"about {duration(wall)}, if {at_once} run at a time on cores that nothing else uses: {total}"
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
    """Seconds of a run: its steps, by some that are timed, and what stands around them. Evaluation is not counted."""
    monitors = [(name, node.get("every_n_steps")) for name, node in parts.config["monitor"].items() if node]
    watching = sum(IN_STEPS.get(name, OTHER_IN_STEPS) / pace for name, pace in monitors if pace)
    steps, limits = parts.module.total_steps, length(parts.config)
    validations = max(limits["max_epochs"], 0)
    if "val_check_interval" in limits:
        validations = steps // limits["val_check_interval"]
    return (
        RUN_SECONDS
        + steps * (timed(step_of(parts)) * (1 + watching) + LOOP_SECONDS)
        + validations * SAVE_SECONDS
    )


def step_of(parts: Parts) -> Callable[[], None]:
    """A training step of a run."""
    precision = parts.make_trainer(enable_checkpointing=False).precision_plugin
    precision.convert_module(module := parts.module)
    batches = iter(parts.data.train_dataloader())
    batch = next(batches)
    module.train()
    made = module.make_optimizers(fused=not str(parts.config["trainer"].get("precision")).startswith("16"))
    optimizer = made["optimizer"] if isinstance(made, dict) else made

    def step() -> None:
        with precision.train_step_context():
            loss = module.training_step(precision.convert_input(next(batches, batch)), 0)["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


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
