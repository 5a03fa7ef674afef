"""What a person sees while a run trains."""

import io
from types import SimpleNamespace

import pytest
import torch
from rich.console import Console
from rich.progress import TimeElapsedColumn

from normexp.format import folded
from normexp.training.recorder import Bar, OnceMeasured
from normexp.training.screen import (
    show_choices,
    show_result,
)
from normexp.training.train import PreparedRun


def summary(seed: int, accuracy: float, lr: float = 0.1, status: str = "completed") -> dict:
    metrics = {"val/accuracy": accuracy, "test/accuracy": accuracy / 2}
    return {
        "status": status, "metrics": metrics, "convergence": {"divergence_step": 3}, "steps": 0,
        "config": {"seed": seed, "lr": lr, "optimizer": {"lr": lr}},
    }  # fmt: skip


def screen(show, *arguments, width: int = 80, **named) -> str:
    text = io.StringIO()
    show(*arguments, Console(file=text, width=width), **named)
    return text.getvalue()


def test_no_folder_is_cut_or_broken_in_a_narrow_terminal(tmp_path, make_parts):
    folder = tmp_path / "a-folder-with-a-name" / "batchnorm-bs64-s0-0123456789abcdef-long"
    parts = make_parts("norm=layernorm", "norm.correction=1", "max_epochs=1")
    text = screen(lambda *given: show_choices(parts, folder, *given), width=50)
    assert str(folder) in text.splitlines()[-1]
    assert "1 epoch " in text
    assert "1 × layernorm" in " ".join(text.split())


def result(tmp_path, rows: list[tuple], **changes) -> str:
    """The last lines of a run that recorded these (step, metric, value)."""
    lines = [f"{step},0,0,{metric},{value}" for step, metric, value in rows]
    (tmp_path / "metrics.csv").write_text("\n".join(["step,epoch,seconds,metric,value", *lines, ""]))
    config = {
        "accuracies": [0.5, 0.9], "data": {"_target_": "normexp.data.Digits"}, "batch_size": 8, "lr": 0.1,
        "outputs": "o", "max_steps": 4, "logger": "csv",
    }  # fmt: skip
    found = {"best": 0.95, "best_step": 4, "steps_to_0.5": 1, "seconds_to_0.5": 1.0, "divergence_step": None}
    found |= {"steps_to_0.9": 4, "seconds_to_0.9": 2.0}
    own = summary(0, 0.9) | {"steps": 4, "seconds": 2.0, "samples": 32, "epochs": 1, "convergence": found}
    own["metrics"]["train/accuracy"] = 0.75
    own["config"] |= config | changes
    return screen(show_result, own, tmp_path, width=160)


@pytest.mark.parametrize("own", [False, True])
def test_where_to_look_is_the_study_or_the_folder_that_was_given(tmp_path, own):
    """Not all outputs: TensorBoard starts with no run ticked above 40. `run_dir` may lie elsewhere."""
    folder = tmp_path / "study" / "mlp" / "run"
    folder.mkdir(parents=True)
    text = result(folder, [], logger="tensorboard", run_dir=str(folder) if own else None)
    assert f"\nlook:   tensorboard --logdir {folder if own else tmp_path / 'study'}\n" in text


def test_a_path_that_fits_a_line_is_not_broken_by_the_indent_of_its_column():
    path = "outputs/" + "x" * 64
    lines = folded(f"to train  50 runs, 2 at a time; logs: {path}", 80).splitlines()
    assert [line.strip() for line in lines] == ["to train  50 runs, 2 at a time; logs:", path]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("columns", "times", "losses"), [(80, False, False), (120, True, False), (160, True, True)]
)
def test_the_line_of_progress_shows_what_its_terminal_has_room_for(monkeypatch, columns, times, losses):
    monkeypatch.setenv("COLUMNS", str(columns))
    recorder = SimpleNamespace(
        latest={"accuracy": 1.0, "loss": 0.0012}, history=[{"val_accuracy": 0.98, "val_loss": 0.0688}]
    )
    bar = Bar(recorder)
    trainer = SimpleNamespace(loggers=[], progress_bar_callback=bar, progress_bar_metrics={})
    assert all(("loss" in text) == losses for text in bar.get_metrics(trainer, None).values())
    column_types = [type(column) for column in bar.configure_columns(trainer)]
    assert (OnceMeasured in column_types) == times


def test_a_speed_that_is_not_known_is_not_shown_as_zero():
    column = OnceMeasured(TimeElapsedColumn())
    task = SimpleNamespace(speed=None, finished=False, elapsed=2.0)
    assert str(column.render(task)) == ""
    task.speed = 8.0
    assert str(column.render(task)) == "0:00:02"


def test_costly_monitors_are_told_before_the_run_starts_and_light_ones_are_not(
    tmp_path, make_parts, monkeypatch
):
    monkeypatch.setattr("normexp.training.train.SHOWN_FROM", 0.0)
    for monitor, told in (("light", False), ("full", True)):
        parts = make_parts("norm=layernorm", f"monitor={monitor}", "max_steps=100", "model.width=8")
        before = [p.clone() for p in parts.module.parameters()]
        text = io.StringIO()
        PreparedRun(parts, tmp_path, Console(file=text, width=160)).show_cost()
        assert (
            "of processor time for 21 measurements; monitor=light takes little" in text.getvalue()
        ) == told
        assert all(torch.equal(p, q) for p, q in zip(before, parts.module.parameters(), strict=True))
