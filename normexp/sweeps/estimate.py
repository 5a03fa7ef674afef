"""What runs will take, for `--plan`: a run of each kind is built, and its steps, evaluations and monitors are timed."""

import io
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from pytorch_lightning import Trainer
from torch.optim import Optimizer

from normexp.config.run_spec import RunSpec
from normexp.format import duration
from normexp.norms import followers
from normexp.training.build import Parts, build
from normexp.training.cost import cost_of_monitors, timed
from normexp.training.lightning import length
from normexp.training.result import POPULATION_SAMPLES, TRAIN_SAMPLES, evaluate

SMALL_BATCH = 512  # samples at most whose evaluation is timed


def estimate(specs: Sequence[RunSpec], at_once: int) -> str:
    """`about 3:00 min if 2 run at a time on idle cores (6:00 min of one core: steps 4:00 min, ...)`. Raises ValueError
    for a run that cannot run."""
    seconds = seconds_of_each(specs)
    if not seconds:
        of_user = any(hasattr(spec, "train") for spec in specs)
        return f"known after the first runs ({'a function of yours trains' if of_user else 'a GPU computes'})"
    at_once, times = min(at_once, len(specs)), [sum(split.values()) for split in seconds]
    of_parts = Counter[str]()
    for each in seconds:
        of_parts.update(each)
    wall = duration(max(sum(times) / at_once, *times))
    how = f"if {at_once} run at a time on idle cores" if at_once > 1 else "on an idle core"
    parts = ", ".join(f"{name} {duration(part)}" for name, part in of_parts.items() if part)
    return f"about {wall} {how} ({duration(sum(times))} of one core: {parts})"


def seconds_of_each(specs: Sequence[RunSpec]) -> list[dict[str, float]]:
    """Processor seconds of each run, by what takes them; none for a function of somebody's, or on a GPU."""
    on_cpu = all(spec.config["trainer"].get("accelerator") == "cpu" for spec in specs)
    if any(hasattr(spec, "train") for spec in specs) or (not on_cpu and torch.cuda.is_available()):
        return []
    kinds = {kind_of(spec): spec for spec in specs}
    seconds = {kind: seconds_of(spec) for kind, spec in kinds.items()}
    return [seconds[kind_of(spec)] for spec in specs]


def seconds_of(spec: RunSpec) -> dict[str, float]:
    """Processor seconds of a run, by what takes them."""
    started = time.process_time()
    parts = build(spec)
    trainer = parts.make_trainer(enable_checkpointing=False)
    started = time.process_time() - started
    module, data, steps = parts.module, parts.data, parts.module.total_steps
    step, optimizer = step_of(parts, trainer)
    of_steps = steps * timed(step)
    state = {"state": module.state_dict(), "optimizer": optimizer.state_dict()}
    saving = timed(lambda: torch.save(state, io.BytesIO()))
    batch = next(iter(data.evaluation_loader("val", SMALL_BATCH)))
    sample = timed(lambda: evaluate(module, [batch], trainer)) / len(batch[0])
    every = length(spec.config).get("val_check_interval")
    validations = steps // every if every else spec.config["max_epochs"]
    train, val, test = (len(data.rows(split, data.device)) for split in ("train", "val", "test"))
    samples = validations * val + min(train, TRAIN_SAMPLES) + val + test
    if followers(module):  # they are evaluated with statistics estimated anew, too
        samples += min(train, POPULATION_SAMPLES) + val + test
    return {
        "steps": of_steps,
        "monitors": cost_of_monitors(parts, trainer)[0],
        "start, evaluation and saving": started + samples * sample + (validations + 2) * saving,
    }


def kind_of(spec: RunSpec) -> str:
    """A text that is equal for runs that build alike and take equally long: all values but seeds and rates."""
    config = spec.config
    parts = {group: {**config[group], "seed": None, "lr": None} for group in ("data", "optimizer")}
    return json.dumps({**config, **parts, "seed": None, "lr": None}, default=str)


def step_of(parts: Parts, trainer: Trainer) -> tuple[Callable[[], None], Optimizer]:
    """A training step of a run, and its optimizer."""
    precision = trainer.precision_plugin
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

    return step, optimizer
