"""What runs will take, for `--plan`: a run of each kind is built, and some of its steps are timed."""

import json
import time
from collections.abc import Callable, Sequence

import torch

from normexp.config.run_spec import RunSpec
from normexp.format import duration
from normexp.training.build import Parts, build

TIMED = 0.1  # seconds that are timed at least, after a step that warms up


def estimate(specs: Sequence[RunSpec], at_once: int) -> str:
    """`about 3:00 min if 2 run at a time on idle cores (6:00 min of one core); validation and monitors come on top`.
    Raises ValueError for a run that cannot run."""
    times = seconds_of_each(specs)
    if not times:
        own = any(hasattr(spec, "train") for spec in specs)
        why = "a function of yours trains" if own else "a GPU computes"
        return f"known after the first runs ({why})"
    at_once = min(at_once, len(specs))
    wall = duration(max(sum(times) / at_once, *times))
    how = f"if {at_once} run at a time on idle cores ({duration(sum(times))} of one core)"
    return f"about {wall} {how if at_once > 1 else 'on an idle core'}; validation and monitors come on top"


def seconds_of_each(specs: Sequence[RunSpec]) -> list[float]:
    """Seconds of the training steps of each run; none where no step can be timed here: of a function, or on a GPU."""
    on_cpu = all(spec.config["trainer"].get("accelerator") == "cpu" for spec in specs)
    if any(hasattr(spec, "train") for spec in specs) or (not on_cpu and torch.cuda.is_available()):
        return []
    kinds = {kind_of(spec): spec for spec in specs}
    seconds = {kind: seconds_of(spec) for kind, spec in kinds.items()}
    return [seconds[kind_of(spec)] for spec in specs]


def seconds_of(spec: RunSpec) -> float:
    """Seconds of the training steps of a run."""
    parts = build(spec)
    return parts.module.total_steps * timed(step_of(parts))


def kind_of(spec: RunSpec) -> str:
    """A text that is equal for runs that build alike and take equally long: all values but seeds and rates."""
    config = spec.config
    parts = {group: {**config[group], "seed": None, "lr": None} for group in ("data", "optimizer")}
    return json.dumps({**config, **parts, "seed": None, "lr": None}, default=str)


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
    work()
    times: list[float] = []
    while sum(times) < TIMED:
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    torch.set_num_threads(threads)
    return sorted(times)[len(times) // 4]  # a low quantile, as other processes only slow it down
