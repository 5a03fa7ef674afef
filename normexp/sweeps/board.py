"""What many runs show: a plan, a line for each run that ends, and an end with every failure."""

import itertools
import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from normexp.format import duration, pluralize, say
from normexp.runs.table import FEWEST_FOR_INTERVAL, FEWEST_SEEDS
from normexp.sweeps.job import WAITING, Task
from normexp.sweeps.options import Options
from normexp.sweeps.places import Place


def show_plan(
    tasks: Sequence[Task], place: Place | None, options: Options, logs: Path, console: Console, *,
    command: str = "", brief: bool = False,
) -> None:  # fmt: skip
    """Print what will run and how, if `brief` in one line; with `options.plan` an estimate of its time, and what a
    cluster would get. `place` is None if nothing runs."""
    to_run = [task for task in tasks if task.state == "planned"]
    if brief and not options.plan:
        if place is not None:
            say(console, f"to train  {pluralize(len(to_run), 'run')}, {place}; logs: {logs}")
        return
    say(console, f"runs      {pluralize(len(tasks), 'run')}")
    if len(to_run) < len(tasks):
        say(console, f"finished  {pluralize(len(tasks) - len(to_run), 'run')}, skipped")
    if place is None:
        return
    say(console, f"to run    {pluralize(len(to_run), 'run')}, {place}")
    if not brief:  # what adds seeds itself, or has a protocol
        say(console, *few_seeds(tasks, command))
    if options.plan:
        from normexp.sweeps.estimate import estimate  # loads torch

        say(console, f"estimate  {estimate([task.spec for task in to_run], place.at_once)}", *place.draft())
    else:
        say(console, "time      known when the first run ends; --plan estimates it and starts nothing")
        say(console, f"logs      {logs}")


def few_seeds(tasks: Sequence[Task], command: str) -> Iterator[str]:
    """A line on runs that are compared with fewer than five seeds, and the command that has five."""
    seeds = sorted({task.spec.config["seed"] for task in tasks})
    if len(seeds) >= FEWEST_SEEDS or len(tasks) == len(seeds):  # or nothing is compared
        return
    word = "has no interval" if len(seeds) < FEWEST_FOR_INTERVAL else "ranks nothing"
    others = (seed for seed in itertools.count() if seed not in seeds)
    enough = ",".join(map(str, [*seeds, *itertools.islice(others, FEWEST_SEEDS - len(seeds))]))
    argv = [word for word in shlex.split(command) if not word.startswith(("seed=", "hydra.launcher.plan="))]
    many = pluralize(len(seeds), "seed")
    yield f"seeds     a comparison of {many} {word}, and arms are ranked from {FEWEST_SEEDS} on:"
    yield f"          {shlex.join([*argv, f'seed={enough}'])}"


def show_end(tasks: Sequence[Task], seconds: float, console: Console) -> None:
    """Print how many runs ended how, and the failures with their reasons."""
    states = Counter("not begun" if task.state == "planned" else task.state for task in tasks)
    say(console, f"\n{counts(states)} in {duration(seconds)}")
    crashed = [task for task in tasks if task.state == "crashed"]
    say(console, *(f"crashed: {task.name}\n  {task.error}\n  {task.job.log}" for task in crashed))
    if left := [task for task in tasks if task.state in (*WAITING, "interrupted", "crashed")]:
        say(console, f"{pluralize(len(left), 'run')} left: the same command goes on from here")


class Board:
    """A line for each run that ends, and on a terminal one line below them that is redrawn. If it is brief, a line for
    each that crashes, and in a file four for the others."""

    def __init__(self, tasks: Sequence[Task], at_once: int, console: Console, *, brief: bool = False):
        self.tasks, self.at_once, self.console, self.brief = tasks, at_once, console, brief
        self.every = max(1, math.ceil(sum(task.state == "planned" for task in tasks) / 4))
        self.status = console.status("starting")

    def update(self, task: Task) -> None:
        """Show the new state of a task, and the time left at the pace so far; a terminal, in its last line alone."""
        states = Counter(one.state for one in self.tasks)
        left = sum(states[state] for state in WAITING)
        ended = [one.seconds for one in self.tasks if one.seconds]
        now, remaining, judged = f"{len(self.tasks) - left}/{len(self.tasks)}", "", ""
        if ended and left and not states["interrupted"]:
            seconds = left * sum(ended) / len(ended) / min(self.at_once, left)
            remaining = f"  about {duration(seconds)} left"
            judged = f" if the others take as long as {pluralize(len(ended), 'finished run')}"
        ends = task.state not in ("planned", "running", "skipped")
        if ends and self.brief and task.state in ("completed", "diverged"):
            ends = not self.console.is_terminal and len(ended) % self.every == 0
        if ends:
            took = duration(task.seconds) if task.seconds else ""
            line = f"{now}  {task.state:<11} {task.run}  {took}  {task.error or ''}".rstrip()
            say(self.console, line if self.console.is_terminal else f"{line}{remaining}{judged}")
        self.status.update(f"{now}  {counts(states)}{remaining}")


def counts(states: Counter[str]) -> str:
    """The numbers of tasks in each state, in words."""
    return ", ".join(f"{number} {state}" for state, number in sorted(states.items()) if number)
