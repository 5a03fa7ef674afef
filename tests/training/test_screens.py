"""What a person sees while a run trains."""

import io
from types import SimpleNamespace

import pytest
import torch
from fabricated import write_run
from pytorch_lightning.callbacks import RichProgressBar
from rich.console import Console
from rich.progress import TimeElapsedColumn

from normexp.format import folded
from normexp.runs import read_summary
from normexp.training.recorder import Bar, OnceMeasured
from normexp.training.screen import show_choices, show_result
from normexp.training.train import PreparedRun


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


@pytest.mark.parametrize("own", [False, True])
def test_where_to_look_is_the_study_or_the_folder_that_was_given(tmp_path, own):
    """Not all outputs: TensorBoard starts with no run ticked above 40. `run_dir` may lie elsewhere."""
    more = {"logger": "tensorboard", "run_dir": "given" if own else None}
    folder = write_run(tmp_path / "study", "none", 8, 0, **more)
    text = screen(show_result, read_summary(folder), folder, width=160)
    assert [line.count("│") for line in text.splitlines() if "│" in line] == [2, 2, 2]  # no bits of a text
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
    latest, history = {"accuracy": 1.0, "loss": 0.0012}, [{"val_accuracy": 0.98, "val_loss": 0.0688}]
    recorder = SimpleNamespace(latest=latest, history=history)
    bar = Bar(recorder)
    trainer = SimpleNamespace(loggers=[], progress_bar_callback=bar, progress_bar_metrics={})
    assert all(("loss" in text) == losses for text in bar.get_metrics(trainer, None).values())
    column_types = [type(column) for column in bar.configure_columns(trainer)]
    assert (OnceMeasured in column_types) == times


def test_an_epoch_ends_with_all_its_batches_however_few_were_drawn(monkeypatch):
    bar, drawn = Bar(SimpleNamespace()), []
    bar._next = float("inf")
    monkeypatch.setattr(bar, "_update", lambda _, batches: drawn.append(batches))
    monkeypatch.setattr(RichProgressBar, "on_train_epoch_end", lambda *_: None)
    for batch in range(5):
        bar.on_train_batch_end(None, None, None, None, batch)
    bar.on_train_epoch_end(None, None)
    assert drawn == [5]


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
        line = "of processor time for 21 measurements; monitor=light takes little"
        assert (line in text.getvalue()) == told
        assert all(torch.equal(p, q) for p, q in zip(before, parts.module.parameters(), strict=True))
