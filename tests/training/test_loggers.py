"""Loggers of services: what they get, once, and that a run is the same run whatever logs it."""

import csv
import importlib.util
import json
import os
import signal
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pytorch_lightning.loggers.logger import DummyLogger

from normexp.config.compose import compose
from normexp.config.identity import config_hash
from normexp.config.run_spec import resolved, specs
from normexp.config.settings import how_to_look, writes_events
from normexp.training.loggers.services import Sent, ServiceLogger
from normexp.training.parts import build
from normexp.training.train import launch

ROOT = Path(__file__).parents[2]
SMALL = ["model.width=8", "model.depth=1", "max_epochs=2", "trainer=cpu", "threads=1", "monitor=gradients"]


# MLflow 3.17 uses a strategy of loading that SQLAlchemy 2.1 is replacing.
noload = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")


class Service(ServiceLogger, DummyLogger):
    service = "mine"

    def __init__(self, folder, *, down: bool = False):
        super().__init__(Sent(folder / ".mine.json"))
        self.got, self.ended, self.down = [], None, down

    def send(self, rows):
        if self.down:
            raise ConnectionError("no route")
        self.got += [(row.step, name, value) for row in rows for name, value in row.metrics.items()]

    def end(self):
        self.ended = self.error or "well"


def trained(tmp_path, *overrides):
    parts = build(*specs([*SMALL, f"outputs={tmp_path}", *overrides]))
    launch(parts)
    (folder,) = {path.parent for path in tmp_path.rglob("summary.json")}
    return folder


def test_a_logger_is_no_part_of_a_run():
    plain, wandb = (resolved(compose(words)[0]) for words in ([], ["logger=csv"]))
    assert wandb["logger"] == "csv"
    assert config_hash(plain) == config_hash(wandb)


@pytest.mark.parametrize(
    ("logger", "message"),
    [
        ("tensorbord", "logger=tensorbord: no such logger; choose from tensorboard, csv, wandb, mlflow"),
        ("[csv,csv]", r"logger=\[csv,csv\]: names a logger twice"),
        ("wandb", r"logger=wandb: wandb is not installed; pip install normexp\[wandb\]"),
        ("[tensorboard,mlflow]", r"logger=mlflow: mlflow is not installed; pip install normexp\[mlflow\]"),
        ("3", "logger=3: must be text or a list"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_written(logger, message, monkeypatch):
    absent = {"wandb": None, "mlflow": None}
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: absent.get(name, found("json")))
    with pytest.raises(ValueError, match=message):
        resolved(compose([f"logger={logger}"])[0])


def test_csv_alone_writes_no_events_and_the_same_numbers(tmp_path):
    both = trained(tmp_path / "both")
    alone = trained(tmp_path / "alone", "logger=csv")
    assert list(both.glob("events*"))
    assert not list(alone.glob("events*"))

    def numbers(folder):
        with (folder / "metrics.csv").open() as file:
            return [(row["step"], row["metric"], row["value"]) for row in csv.DictReader(file)]

    assert numbers(both) == numbers(alone)
    assert both.name == alone.name


def test_each_number_goes_out_once_though_a_killed_run_repeats_its_last_steps(tmp_path):
    first = Service(tmp_path)
    for step in range(20, 101, 20):
        first.log_metrics({"loss": step / 100, "lr": 0.1}, step)
        first.log_metrics({"val": 0.5}, step)
    first.save()
    first.log_metrics({"loss": 1.2}, 120)  # killed before it was sent
    second = Service(tmp_path)  # from the checkpoint of step 60
    for step in range(80, 141, 20):
        second.log_metrics({"loss": step / 100, "lr": 0.1}, step)
    second.close()
    got = [row[:2] for row in first.got + second.got]
    assert max(Counter(got).values()) == 1
    assert {step for step, name in got if name == "loss"} == {20, 40, 60, 80, 100, 120, 140}
    assert second.ended == "well"


def test_numbers_of_one_step_go_out_together(tmp_path):
    service = Service(tmp_path)
    service.save()  # the next sending is in ten seconds
    service.log_metrics({"a": 1.0}, 5)
    service.log_metrics({"b": 2.0}, 5)
    assert service.got == []
    assert len(service._waiting) == 1
    assert service.sizes() == {}
    assert service.got == [(5, "a", 1.0), (5, "b", 2.0)]


def test_a_service_that_is_away_ends_no_training_and_gets_the_numbers_later(tmp_path):
    service = Service(tmp_path, down=True)
    with pytest.warns(UserWarning, match=r"logger=mine: numbers cannot be sent \(no route\)"):
        service.log_metrics({"a": 1.0}, 1)
    service.log_metrics({"a": 2.0}, 2)
    service.down = False
    service.close()
    assert service.got == [(1, "a", 1.0), (2, "a", 2.0)]


def test_a_damaged_file_is_one_line(tmp_path):
    (tmp_path / ".mine.json").write_text('{"run": 3}')
    with pytest.raises(ValueError, match=r"\.mine\.json: damaged"):
        Service(tmp_path)


def test_how_to_look(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tensorboard, mlflow = how_to_look({"logger": ["tensorboard", "mlflow"], "outputs": tmp_path}, "out")
    assert tensorboard == "look:   tensorboard --logdir out"
    assert mlflow == f"look:   mlflow ui --backend-store-uri sqlite:///{tmp_path}/mlflow.db"
    assert how_to_look({"outputs": "o"}, "o") == ["look:   tensorboard --logdir o"]  # an older run
    assert writes_events({"logger": ["csv", "tensorboard"]})
    assert not writes_events({"logger": "csv"})
    assert how_to_look({"logger": "csv", "outputs": "o"}, "o") == []


# Real services, offline.


DYING = """
import os, signal, sys, time
import normexp.lit_model as lit_model
from normexp.cli.train import main

step = lit_model.LitModel.training_step

def dying(self, *arguments):
    if self.trainer.global_step == {kill_at}:
        time.sleep(3)  # wandb's process writes its file every second
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, *arguments)

lit_model.LitModel.training_step = dying
main()
"""


def command(folder, *overrides, kill_at: int | None = None):
    """A run in a new process. `kill_at` kills it before this training step."""
    call = ["-m", "normexp", "train"] if kill_at is None else ["-c", DYING.format(kill_at=kill_at)]
    words = [*overrides, *SMALL, "log_every_n_steps=2", f"outputs={folder}"]
    environment = os.environ | {"WANDB_MODE": "offline", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *call, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def rows_of(folder):
    with (folder / "metrics.csv").open() as file:
        return [(row["metric"], int(row["step"]), float(row["value"])) for row in csv.DictReader(file)]


def history_of_mlflow(store, run_id):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{store}")
    run = client.get_run(run_id)
    points = [
        (m.key, m.step, m.value) for key in run.data.metrics for m in client.get_metric_history(run_id, key)
    ]
    return run, client.get_experiment(run.info.experiment_id), points


def records_of(file):
    """The records of wandb's offline file: blocks of 32 KiB, in each a checksum, a length and a kind before every part
    of a record (LevelDB's log format, after seven bytes of its own)."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, whole, at = file.read_bytes(), b"", 7
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        _, length, kind = struct.unpack_from("<IHB", data, at) if left >= 7 else (0, 0, 0)
        if not kind:
            at += left
            continue
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or its last part
            record = Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


@noload
@pytest.mark.slow
def test_mlflow_has_every_number_once_after_a_kill(tmp_path):
    pytest.importorskip("mlflow")
    killed = command(tmp_path, "logger=mlflow", "name=study", kill_at=27)
    assert killed.returncode == -signal.SIGKILL
    (sent,) = tmp_path.rglob(".mlflow.json")
    first = json.loads(sent.read_text())
    done = command(tmp_path, "logger=mlflow", "name=study")
    assert done.returncode == 0, done.stderr
    assert "resuming from" in done.stdout
    assert json.loads(sent.read_text())["run"] == first["run"]
    run, experiment, points = history_of_mlflow(tmp_path / "mlflow.db", first["run"])
    assert experiment.name == "study"
    assert run.info.status == "FINISHED"
    assert run.data.params["norm"] == "layernorm"
    assert run.data.params["lr"] == "0.003"
    assert max(Counter(point[:2] for point in points).values()) == 1
    trained = [point for point in points if not point[0].startswith("final/")]
    assert sorted(trained) == sorted(rows_of(sent.parent))
    summary = json.loads((sent.parent / "summary.json").read_text())
    assert run.data.metrics["final/test_accuracy"] == summary["metrics"]["test/accuracy"]
    assert not list(sent.parent.glob("events*"))


@pytest.mark.slow
def test_wandb_continues_under_its_id_and_has_every_number_once(tmp_path):
    pytest.importorskip("wandb")
    assert command(tmp_path, "logger=wandb", "name=study", kill_at=27).returncode == -signal.SIGKILL
    done = command(tmp_path, "logger=wandb", "name=study")
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.rglob("run-*.wandb"))
    assert len(files) == 2  # one for each launch; `wandb sync` joins them by their id
    records = [record for file in files for record in records_of(file)]
    runs = [record.run for record in records if record.WhichOneof("record_type") == "run"]
    exits = [record.exit.exit_code for record in records if record.WhichOneof("record_type") == "exit"]
    points = []
    for record in records:
        if record.WhichOneof("record_type") == "history":
            row = {
                ".".join(item.nested_key) or item.key: json.loads(item.value_json)
                for item in record.history.item
            }
            step = row.pop("trainer/global_step")
            points += [(name, step, float(value)) for name, value in row.items() if not name.startswith("_")]
    (folder,) = {path.parent for path in tmp_path.rglob("summary.json")}
    assert {run.run_id for run in runs} == {json.loads((folder / ".wandb.json").read_text())["run"]}
    assert {run.run_group for run in runs} == {"study"}
    assert exits[-1] == 0
    assert max(Counter(point[:2] for point in points).values()) == 1
    assert sorted(points) == sorted(rows_of(folder))


@noload
@pytest.mark.slow
def test_the_default_store_of_a_notebook_stays(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mine.db")
    before = os.environ["MLFLOW_TRACKING_URI"]
    try:
        trained(tmp_path, "logger=mlflow", "max_steps=2")
        assert mlflow.get_tracking_uri() == before == os.environ["MLFLOW_TRACKING_URI"]
    finally:
        mlflow.set_tracking_uri(None)
    assert "MLFLOW_TRACKING_URI" not in os.environ


@pytest.mark.slow
def test_a_store_that_cannot_be_used_is_one_line_and_leaves_no_run(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////proc/no/such.db")
    wrong = command(tmp_path, "logger=mlflow")
    assert wrong.returncode == 2
    line = wrong.stderr.strip().splitlines()[-1]
    assert line.startswith("Error: logger=mlflow: sqlite:////proc/no/such.db cannot be used")
    assert "set MLFLOW_TRACKING_URI to another store" in line
    assert not list(tmp_path.rglob("*-s0-*"))


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
    assert sorted(run.data.params["norm"] for run in runs) == ["layernorm", "layernorm", "none", "none"]
    assert {run.info.status for run in runs} == {"FINISHED"}
