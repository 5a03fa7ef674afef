"""Train one run, top to bottom: build its parts (nothing is written until all are valid), skip a finished run, resume
an unfinished one from its last checkpoint, write the summary last."""

import gc
import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from rich.console import Console

from normexp.config.process import handling
from normexp.config.run_spec import RunSpec
from normexp.data.base import DataModule
from normexp.format import duration, say
from normexp.monitors.charts import callbacks_of, measure_without_fit
from normexp.monitors.guard import passes_as_in
from normexp.runs import read_summary, write_summary, write_test_examples
from normexp.training import checkpoint, screen
from normexp.training.build import Parts, build
from normexp.training.cost import cost_of_monitors
from normexp.training.epoch_loop import install
from normexp.training.folder import RunFolder
from normexp.training.lightning import denormals, keep_freed_memory, length, own_rank
from normexp.training.loggers import log_results, open_loggers
from normexp.training.recorder import Bar, EarlyStopping, Lines, Recorder
from normexp.training.result import PopulationStatistics, final_metrics, measure_finished, summarize
from normexp.training.threads import set_threads

CHEAP = ("light", "none")  # choices of monitors
SHOWN_FROM = 5.0  # seconds of monitors
WRITTEN_FOR = "2.6."  # of Lightning, whose private loops epoch_loop.py builds on; another trains with its own


def train(spec: RunSpec, command: str = "", data: DataModule | None = None) -> dict[str, Any]:
    """Train a run unless it is finished. Returns its summary, which records the typed `command`.

    Raises ValueError with one line before anything is written. An interrupted run exits with 128 plus the signal.
    """
    try:
        with denormals(flush=spec.config["flush_denormal"]):
            return launch(build(spec, data, command=command))
    finally:
        gc.collect()  # network and data hold each other, and the next run of this process needs their memory


def launch(parts: Parts) -> dict[str, Any]:
    """Train the run of these parts unless it is finished. Returns its summary."""
    config, path = parts.config, parts.spec.folder
    console = screen.make_console(quiet=own_rank() != 0)
    if own_rank() != 0:  # a worker of ddp; the first process owns the folder and reports what is left
        try:
            return PreparedRun(parts, path, console).fit()
        except checkpoint.Stopped as stop:  # by such a status Lightning ends the worker's other processes
            sys.exit(128 + stop.signum)
    key = "run_dir" if config["run_dir"] else "outputs"
    folder = RunFolder(path, parts.spec.digest, parts.spec.files(), asked=f"{key}={config[key]}")
    if finished := read_summary(path):
        return screen.show_finished(parts, finished, console)
    prepared = PreparedRun(parts, path, console)
    with checkpoint.stopping(folder, console), folder:
        if finished := read_summary(path):  # another process has trained it meanwhile
            return screen.show_finished(parts, finished, console)
        screen.show_choices(parts, path, console)
        prepared.show_cost()
        summary = prepared.fit()
        write_summary(path, summary)
    screen.show_result(summary, path, console)
    return summary


class PreparedRun:
    """A run that can start: its trainer and callbacks. Nothing is written before `fit`.

    Raises ValueError with one line.
    """

    def __init__(self, parts: Parts, folder: Path, console: Console):
        keep_freed_memory()
        config = parts.config
        set_threads(parts)
        self.parts, self.folder, self.console = parts, folder, console
        self.no_step = config["max_steps"] == 0
        self.recorder, self.state = Recorder(config["log_every_n_steps"]), checkpoint.RunState()
        self.last = checkpoint.LastCheckpoint(folder / "checkpoints" / "last.ckpt")
        self.stop, patience = checkpoint.StopOnSignal(self.last.save), config["early_stopping"]
        early = [EarlyStopping(patience)] if patience else []
        callbacks = [
            self.stop,
            PopulationStatistics(parts.data),
            self.recorder,
            *early,
            *parts.monitors,
            Bar(self.recorder) if console.is_terminal else Lines(self.recorder, console),
            self.state,
            checkpoint.best_checkpoint(self.last.path.parent),
            self.last,
        ]
        self.trainer = parts.make_trainer(
            **length(config),
            **({"devices": 1, "strategy": "auto"} if self.no_step else {}),  # others would have no work
            callbacks=callbacks,
            enable_progress_bar=console.is_terminal,
            default_root_dir=folder,
            num_sanity_val_steps=0,
            enable_model_summary=False,
            use_distributed_sampler=False,
            log_every_n_steps=2**31,  # never: the recorder logs, Lightning does not
        )
        self.trainer.strategy.checkpoint_io = checkpoint.WholeCheckpoints()
        if pl.__version__.startswith(WRITTEN_FOR):
            install(self.trainer)
        parts.data.trainer = self.trainer
        # Lightning converts after loading, and a float32 module would round the checkpoint's float64 weights.
        self.trainer.precision_plugin.convert_module(parts.module)
        if mode := config["compile"]:
            parts.module.model.compile(mode="default" if mode is True else mode)

    def fit(self) -> dict[str, Any]:
        """Train to the end and return the summary. If the folder has a `last.ckpt`, resume from it."""
        parts, trainer, path = self.parts, self.trainer, self.last.path
        resumed = checkpoint.load_to_resume(path) if path.exists() and not self.no_step else None
        if resumed:
            torch.set_num_threads(resumed["run"]["threads"])  # another number computes other bits
            at = f"resuming from checkpoints/last.ckpt, at step {resumed['global_step']:,}"
            self.console.print(at, highlight=False)
        with open_loggers(parts, self.folder, resumed) as loggers, handling(self.stop.remember):
            trainer.loggers = loggers
            # Dropout draws the same stream, no matter what initialization or an earlier run of this process drew.
            torch.manual_seed(parts.config["seed"])
            if self.no_step:
                self.take_no_step()
            else:
                trainer.fit(parts.module, datamodule=parts.data, ckpt_path=path if resumed else None)
            metrics, examples = final_metrics(parts, trainer)
            measure_finished(parts, trainer, metrics)
            summary = summarize(parts, trainer, self.recorder, self.state, metrics)
            if own_rank() == 0:
                write_test_examples(self.folder, examples)
            log_results(loggers, summary)
        return summary

    def show_cost(self) -> None:
        """Say what the measurements will take, where somebody chose more than the light ones."""
        if self.parts.choices["monitor"] in CHEAP or self.no_step or self.trainer.world_size > 1:
            return
        if self.trainer.strategy.root_device.type == "cpu":
            seconds, times = cost_of_monitors(self.parts, self.trainer)
            if seconds > SHOWN_FROM:
                took = f"about {duration(seconds)} of processor time for {times} measurements"
                say(self.console, f"monitors  {took}; monitor=light takes little")

    def take_no_step(self) -> None:
        """Measure and save the network at initialization. Lightning's fit with `max_steps=0` would call no hook."""
        module, trainer = self.parts.module, self.trainer
        module.to(trainer.strategy.root_device)
        with passes_as_in(trainer):  # autocast, or float64 by default, as in training
            measure_without_fit(callbacks_of(trainer), module, self.parts.data, trainer.loggers)
        trainer.strategy.connect(module)
        self.last.save(trainer)
