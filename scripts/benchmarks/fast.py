"""Time to an accuracy on all cores: `recipe=fast` by its command, and networks of others in a bare loop."""

import math
import tempfile
import time
from pathlib import Path
from typing import Any

from normexp.runs import finished_summary, load

from . import Measured, Options
from .bare_loop import BareLoop
from .commands import ROOT, once
from .peers import airbench

SEEDS = 5  # of a recipe; a peer has one
PEERS = {"airbench": airbench, "resnet": None}  # None: the network and the optimizer of the overrides
WARM_UP, PILOT = 2, 10  # steps: first calls choose kernels; then some tell how many fit
POINTS = 8  # validations of a peer
Run = dict[str, Any]


def fast(what: str, words: str, seconds: float, options: Options) -> Measured:
    """Seconds of training over those that are allowed, and what each seed reached.

    Args:
        what: `recipe`, or one of PEERS.
        words: overrides of the run, or of the one whose data and order a peer has.
    """
    if what == "recipe":
        runs = [recipe(words, seed, options) for seed in range(1 if options.quick else SEEDS)]
    else:
        runs = [peer(what, words, 0.0 if options.quick else seconds, options)]
    return [(run["seconds"], seconds) for run in runs], {"runs": runs}


def recipe(words: str, seed: int, options: Options) -> Run:
    """A run of the recipe by its command. Its start is what the command took beside training."""
    is_text = "data=text_file" in words
    metric = "loss" if is_text else "accuracy"
    more = [*options.root] if "data=mnist" in words else []
    if options.quick:
        more += ["max_steps=2", "val_every_n_steps=1", *[f"data.path={ROOT / 'README.md'}"] * is_text]
    with tempfile.TemporaryDirectory() as place:
        command = f"train.py {words} recipe=fast seed={seed} monitor=none logger=csv outputs={place}"
        whole, _ = once(" ".join([command, *more]))
        (path,) = Path(place).rglob("summary.json")
        summary = finished_summary(path.parent)
        curve = load(place, metrics=[f"val/{metric}"])[["seconds", "value"]].values.tolist()
    val, test = (summary["metrics"][f"{split}/{metric}"] for split in ("val", "test"))
    return {
        "seed": seed, "seconds": round(summary["seconds"], 1), "start": round(whole - summary["seconds"], 1),
        "steps": summary["steps"], "val": curve[-1][1],
        "test": (test + val) / 2 if is_text else test,  # of a text they are the two halves of its last tenth
        "points": [(round(at, 1), value) for at, value in curve],
    }  # fmt: skip


def peer(name: str, words: str, seconds: float, options: Options) -> Run:
    """Another network in bfloat16 with its own optimizer and rates, which fall to 0, for so many seconds."""
    if options.quick and name == "airbench":
        raise ValueError("airbench takes images with colors, which --quick has not")
    data = "data=digits" if options.quick else "data=cifar10_jpeg"
    images = "data.augment=true data.shift=2 data.border=reflect data.tta=flip"  # as the recipe has them
    overrides = [*words.split(), data, *images.split()]
    loop = BareLoop(overrides, PEERS[name], bfloat16=True)
    step, points, spent, steps = 0, [], 0.0, 100
    while step < steps:
        started = time.perf_counter()
        loop.step(step, 1 - step / steps)
        step += 1
        spent += time.perf_counter() - started
        if step == WARM_UP:
            spent = 0.0
        if step == PILOT:
            steps = max(step + 1, math.floor((PILOT - WARM_UP) * seconds / spent))
        if step == steps or (step > PILOT and step % max(1, steps // POINTS) == 0):
            points.append((round(spent, 1), loop.evaluate("val")))
    return {
        "seed": 0, "seconds": round(spent, 1), "start": None, "steps": steps, "val": points[-1][1],
        "test": loop.evaluate("test"), "points": points,
    }  # fmt: skip
