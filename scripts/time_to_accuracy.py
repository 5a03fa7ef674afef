"""Time to an accuracy on two cores: `recipe=fast`, five seeds of each task, and two bare loops beside CIFAR-10's.

python scripts/time_to_accuracy.py run [mnist|cifar10|text|airbench|resnet ...]   # one row a run, into docs/data
python scripts/time_to_accuracy.py page                                           # table and figure of docs/recipes.md

It reads MNIST, CIFAR-10 and tinyshakespeare in the folder that NORMEXP_DATA names. Nothing else should run beside it.
"""

import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmark import machine
from doc_tables import DATA, DOCS, ROOT, filled, read_rows, table, write_rows

from normexp.machine import cores

FILE = DATA / "time_to_accuracy.json"
SEEDS = 5
FOLDER = Path(os.environ.get("NORMEXP_DATA", "data"))
# Task -> what it is called, its overrides, the goal, and the seconds asked.
TASKS = {
    "mnist": ("MNIST", "model=cnn data=mnist norm=batchnorm", 0.99, 20),
    "cifar10": ("CIFAR-10", "model=cnn data=cifar10_jpeg norm=batchnorm trainer=bf16", 0.88, 240),
    "text": (
        "tinyshakespeare",
        f"model=gpt data=text_file data.path={FOLDER}/tinyshakespeare.txt.gz norm=rmsnorm",
        1.6,
        300,
    ),
}
PEERS = {"airbench": "airbench's network, bare loop", "resnet": "ResNet-20, bare loop"}
BUDGET = 240.0  # seconds of a peer's training
Row = dict[str, Any]


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["page"]:
        return write_page()
    os.environ["OMP_NUM_THREADS"] = str(cores())
    for name in arguments[1:] or [*TASKS, *PEERS]:
        rows = [row for row in read_rows(FILE) if row["task"] != name]
        for seed in range(SEEDS if name in TASKS else 1):
            row = recipe(name, seed) if name in TASKS else peer(name, seed)
            rows.append(
                {"task": name, "seed": seed, **row, "machine": machine(), "date": f"{time.strftime('%F')}"}
            )
            print(rows[-1], flush=True)
        write_rows(FILE, rows)
    return None


def recipe(name: str, seed: int) -> Row:
    """A run of the recipe by its command, on all cores. Its start is what the command took beside training."""
    with tempfile.TemporaryDirectory() as out:
        words = [
            *TASKS[name][1].split(),
            "recipe=fast",
            f"seed={seed}",
            "monitor=none",
            "logger=csv",
            f"outputs={out}",
        ]
        started = time.perf_counter()
        subprocess.run([sys.executable, ROOT / "train.py", *words], check=True, stdout=subprocess.DEVNULL)
        whole = time.perf_counter() - started
        (path,) = Path(out).rglob("summary.json")
        summary = json.loads(path.read_text())
        text = name == "text"
        metric = "val/loss" if text else "val/accuracy"
        with (path.parent / "metrics.csv").open() as file:
            points = [
                (round(float(r["seconds"]), 1), float(r["value"]))
                for r in csv.DictReader(file)
                if r["metric"] == metric
            ]
    metrics = summary["metrics"]
    test = metrics["test/loss"] if text else metrics["test/accuracy"]
    if text:  # validation and test are the two halves of the last tenth
        test = (test + metrics["val/loss"]) / 2
    return {
        "seconds": round(summary["seconds"], 1), "start": round(whole - summary["seconds"], 1),
        "steps": summary["steps"], "val": points[-1][1], "test": test, "points": points,
    }  # fmt: skip


def peer(name: str, seed: int) -> Row:
    """A network of others in a loop of nothing but steps, with their optimizer and rates, for as long as the recipe
    may take."""
    import torch
    import torch.nn.functional as F
    from benchmarks import peers

    torch.manual_seed(seed)
    images = peers.Images(FOLDER)
    net, optimizers, smoothing, size = getattr(peers, name)(images)
    rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    step, points, spent, steps = 0, [], 0.0, 100
    while step < steps:
        started = time.perf_counter()
        factor = 1 - step / steps
        for optimizer, of_groups in zip(optimizers, rates, strict=True):
            for group, rate in zip(optimizer.param_groups, of_groups, strict=True):
                group["lr"] = rate * factor
        inputs, targets = images.batch(size)
        with torch.autocast("cpu", torch.bfloat16):
            logits = net(inputs)
        net.zero_grad(set_to_none=True)
        F.cross_entropy(logits.float(), targets, label_smoothing=smoothing).backward()
        for optimizer in optimizers:
            optimizer.step()
        step += 1
        spent += time.perf_counter() - started
        if step == 2:
            spent = 0.0  # first calls choose kernels
        if step == 10:  # as many steps as fit
            steps = max(step + 1, math.floor(8 * BUDGET / spent))
        if step == steps or (step > 10 and step % max(1, steps // 8) == 0):
            points.append((round(spent, 1), images.accuracy(net, "val")))
    return {
        "seconds": round(spent, 1), "start": None, "steps": steps, "val": points[-1][1],
        "test": images.accuracy(net, "test"), "points": points,
    }  # fmt: skip


def write_page() -> None:
    """The table and the figure of docs/recipes.md."""
    import matplotlib.pyplot as plt

    rows = read_rows(FILE)
    page = DOCS / "recipes.md"
    page.write_text(filled(page.read_text(), {"fast": fast_table(rows)}))
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    names = {
        "cifar10": ("recipe=fast", "#0067a0"),
        "airbench": (PEERS["airbench"], "#a84000"),
        "resnet": (PEERS["resnet"], "#777777"),
    }
    for task, (title, color) in names.items():
        for k, row in enumerate(row for row in rows if row["task"] == task):
            x, y = zip(*row["points"], strict=True)
            axes.plot(
                x, [100 * v for v in y], color=color, label=None if k else title, marker=".", linewidth=1
            )
    axes.axhline(88, color="#cccccc", linewidth=0.8, zorder=0)
    axes.set(xlabel="seconds of training on two cores", ylabel="validation accuracy, %", ylim=(20, 95))
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(DOCS / "images" / "time_to_accuracy.png", dpi=150)


def fast_table(rows: list[Row]) -> str:
    """A line for each goal and each peer, and where they were measured."""
    lines = []
    for task, (title, _, goal, asked) in TASKS.items():
        if runs := [row for row in rows if row["task"] == task]:
            aim = f"{goal} nats" if task == "text" else f"{100 * goal:.0f}%"
            ends = ", ".join(shown(row) for row in runs)
            seconds, start = (statistics.median(row[key] for row in runs) for key in ("seconds", "start"))
            lines.append(
                (f"{title}: {aim} in {asked} s", runs[0]["steps"], ends, f"{seconds:.0f}", f"{start:.0f}")
            )
    for row in rows:
        if row["task"] in PEERS:
            title = f"CIFAR-10: {PEERS[row['task']]}"
            lines.append((title, row["steps"], shown(row), f"{row['seconds']:.0f}", None))
    where = dict.fromkeys(f"{row['date']}, {row['machine']}" for row in rows)
    head = ["goal", "steps", "on test, seeds 0 to 4", "training, s", "start and end, s"]
    return table(head, lines) + f"\nMeasured {'; '.join(where)}.\n"


def shown(row: Row) -> str:
    """What a run reached on test: nats, or %."""
    return f"{row['test']:.3f}" if row["task"] == "text" else f"{100 * row['test']:.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])
