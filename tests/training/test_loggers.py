"""Where the numbers of a run go: exact rows, TensorBoard's tags, services; and that a run is the same run whatever logs
it."""

import contextlib
import importlib.util
import json
import signal
from collections import Counter
from types import SimpleNamespace

import pytest
from fabricated import write_run
from forked import started
from recorded import points, rows
from refusals import refused

from normexp.config.compose import compose
from normexp.config.run_spec import resolved
from normexp.runs import read_summary
from normexp.training.loggers import COLUMNS, MetricsCSV, TensorBoard, _service, log_results

SMALL = ["model.width=8", "model.depth=1", "max_epochs=2", "trainer=cpu", "threads=1", "monitor=gradients"]
# MLflow 3.17 uses a strategy of loading that SQLAlchemy 2.1 is replacing.
noload = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")


def values_of(folder):
    return [float(row["value"]) for row in rows(folder)]


def test_rows_read_back_exactly(tmp_path):
    logger = MetricsCSV(tmp_path / "metrics.csv")
    logger.clock = {"epoch": 0.5, "seconds": 1.25}
    logger.log_metrics({"train/loss": 0.1 + 0.2, "lr": 1e-30}, step=7)
    logger.close()
    header, *rows = [line.split(",") for line in (tmp_path / "metrics.csv").read_text().splitlines()]
    assert tuple(header) == COLUMNS
    assert [row[:3] for row in rows] == [["7", "0.5", "1.25"]] * 2
    assert values_of(tmp_path) == [0.1 + 0.2, 1e-30]


def test_resume_keeps_rows_until_the_checkpoint_and_drops_later_and_broken_ones(tmp_path):
    path = tmp_path / "metrics.csv"
    logger = MetricsCSV(path)
    for step in (10, 20):
        logger.log_metrics({"train/loss": step / 10}, step=step)
    kept = logger.length()
    logger.log_metrics({"train/loss": 2.5}, step=20)  # of the same step, but after the checkpoint
    logger.close()
    path.write_text(path.read_text() + "40,0,0,tr")  # killed while writing
    resumed = MetricsCSV(path, keep=kept)
    assert values_of(tmp_path) == [1.0, 2.0]  # on the disk at once: a kill right now loses nothing
    resumed.log_metrics({"train/loss": 99.0}, step=30)
    resumed.close()
    assert values_of(tmp_path) == [1.0, 2.0, 99.0]
    MetricsCSV(path).close()
    assert values_of(tmp_path) == []


def test_a_logger_is_no_part_of_a_run(train, tmp_path):
    _, both = train(f"outputs={tmp_path / 'both'}")
    _, alone = train("logger=csv", f"outputs={tmp_path / 'alone'}")
    assert list(both.glob("events*"))
    assert not list(alone.glob("events*"))
    assert values_of(both) == values_of(alone)
    assert both.name == alone.name  # which ends in the hash


@pytest.mark.parametrize(
    ("logger", "message"),
    [
        ("wandb", r"logger=wandb: wandb is not installed; .*\[wandb\]"),
        ("[tensorboard,mlflow]", r"mlflow is not installed; .*\[mlflow\]"),
        ("3", "logger=3: choose from tensorboard, csv, wandb, mlflow"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_written(logger, message, monkeypatch):
    absent = {"wandb": None, "mlflow": None}
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: absent.get(name, found("json")))
    with refused(message):
        resolved(compose([f"logger={logger}"])[0])


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_service_gets_the_run_with_its_settings(make_parts, tmp_path, monkeypatch, name):
    class Service:
        def __init__(self, **options):
            self.options = options

        def log_hyperparams(self, settings):
            self.settings = settings

    for kind in ("WandbLogger", "MLFlowLogger"):
        monkeypatch.setattr(f"normexp.training.loggers.{kind}", Service)
    parts = make_parts("name=study")
    (tmp_path / "outputs").mkdir()
    logger = _service(name, parts, tmp_path / "a-run")
    digest = parts.spec.digest
    assert (logger.settings["norm"], logger.settings["hash"]) == ("layernorm", digest)
    given = {"wandb": ("group", "name", "id"), "mlflow": ("experiment_name", "run_name")}[name]
    assert [logger.options[key] for key in given] == ["study", "mlp/a-run", digest[:32]][: len(given)]


@pytest.mark.parametrize(("status", "diverged"), [("completed", 0.0), ("diverged", 1.0)])
def test_each_logger_gets_the_results_and_tensorboard_the_settings(tmp_path, monkeypatch, status, diverged):
    """Those that its table compares stand in front: capitals first."""
    summary, given = read_summary(write_run(tmp_path, "none", 8, 0, status)), []
    monkeypatch.setattr(TensorBoard, "log_hyperparams", lambda _, *both: given.append(both))
    service = SimpleNamespace(log_metrics=lambda *both: given.append(both))
    with contextlib.closing(TensorBoard(tmp_path, 20, {})) as board:
        log_results([board, service], summary)
        assert board._kwargs["purge_step"] == 21  # the first step that is trained again
    (settings, results), others = given
    assert others == (results, 200)
    assert results["final/diverged"] == diverged
    assert results["final/test_accuracy"] == summary["metrics"]["test/accuracy"]
    assert sorted(settings)[:5] == ["Batch_size", "Lr", "Model", "Norm", "Seed"]
    assert settings["schedule"] == "constant"


# Real services, offline.


DYING = """
import os, signal, sys
import normexp.training.lit_model as lit_model
from normexp.cli.train import main

step = lit_model.LitModel.training_step

def dying(self, *arguments):
    if self.trainer.global_step == 27:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, *arguments)

lit_model.LitModel.training_step = dying
main(sys.argv[1:])
"""


def command(folder, *overrides, kill: bool = False):
    """A run in a new process, which may be killed at step 27."""
    call = ["-c", DYING] if kill else ["-m", "normexp", "train"]
    words = [*overrides, *SMALL, "log_every_n_steps=2", f"outputs={folder}"]
    return started(*call, *words, folder=folder, WANDB_MODE="offline")


@noload
@pytest.mark.slow
def test_mlflow_has_the_numbers_after_a_kill(tmp_path):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    assert command(tmp_path, "logger=mlflow", "name=study", kill=True).returncode == -signal.SIGKILL
    done = command(tmp_path, "logger=mlflow", "name=study")
    assert done.returncode == 0, done.stderr
    assert "resuming from" in done.stdout
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (folder,) = {path.parent for path in tmp_path.rglob("summary.json")}
    runs = client.search_runs([client.get_experiment_by_name("study").experiment_id])
    (run,) = [run for run in runs if run.info.status == "FINISHED"]
    assert run.data.params["norm"] == "layernorm"
    known = {(metric, int(step), value) for (step, metric), value in points(folder).items()}
    logged = {key for key in run.data.metrics if not key.startswith("final/")}
    assert logged
    for key in logged:
        history = client.get_metric_history(run.info.run_id, key)
        assert {(point.key, point.step, point.value) for point in history} <= known
    summary = json.loads((folder / "summary.json").read_text())
    assert run.data.metrics["final/test_accuracy"] == summary["metrics"]["test/accuracy"]


@pytest.mark.slow
def test_wandb_continues_under_its_id(tmp_path):
    pytest.importorskip("wandb")
    assert command(tmp_path, "logger=wandb", "name=study", kill=True).returncode == -signal.SIGKILL
    done = command(tmp_path, "logger=wandb", "name=study")
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.rglob("run-*.wandb"))
    assert len(files) == 2  # one for each launch; `wandb sync` joins them by their id
    (folder,) = {path.parent for path in tmp_path.rglob("summary.json")}
    known = json.loads((folder / "summary.json").read_text())["hash"][:32]
    assert {file.name for file in files} == {f"run-{known}.wandb"}
    assert b"study" in files[-1].read_bytes()


@noload
@pytest.mark.slow
def test_a_sweep_is_one_experiment_of_runs_that_open_a_new_store_at_once(tmp_path):
    pytest.importorskip("mlflow")
    grid = ["norm=none,layernorm", "seed=0,1", "hydra.launcher.workers=4"]
    done = command(tmp_path, "-m", "logger=mlflow", "name=study", *grid)
    assert done.returncode == 0, done.stdout + done.stderr
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    runs = client.search_runs([client.get_experiment_by_name("study").experiment_id])
    assert Counter(run.data.params["norm"] for run in runs) == {"layernorm": 2, "none": 2}
    assert {run.info.status for run in runs} == {"FINISHED"}
