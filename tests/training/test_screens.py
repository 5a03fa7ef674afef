"""What a person sees while a run trains."""

import io
import math
from types import SimpleNamespace

import pytest
import torch
from fabricated import edit_summary, write_run
from pytorch_lightning.callbacks import RichProgressBar
from rich.console import Console
from rich.progress import TimeElapsedColumn

from normexp.format import folded, pluralize
from normexp.runs import read_summary
from normexp.training.cost import cost_of_monitors, timed
from normexp.training.recorder import Bar, Lines, OnceMeasured
from normexp.training.screen import how_to_look, show_choices, show_result, threads
from normexp.training.train import PreparedRun


def screen(show, *arguments, width: int = 80, **named) -> str:
    text = io.StringIO()
    show(*arguments, Console(file=text, width=width), **named)
    return text.getvalue()


def test_several_of_a_thing_are_spelled_as_in_a_dictionary():
    plurals = [pluralize(2, word) for word in ("epoch", "batch", "class", "depth", "batch size")]
    assert plurals == ["2 epochs", "2 batches", "2 classes", "2 depths", "2 batch sizes"]
    assert pluralize(1, "epoch") == "1 epoch"


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
    edit_summary(folder, samples=1500)
    text = screen(show_result, read_summary(folder), folder, width=160)
    assert [line.count("│") for line in text.splitlines() if "│" in line] == [2, 2, 2]  # no bits of a text
    assert f"\nlook:   tensorboard --logdir {folder if own else tmp_path / 'study'}\n" in text
    assert "\ncompleted · 200 steps in 2.0 s of training, 750 samples a second\n" in text


def test_of_a_text_the_bits_of_a_character_are_shown(tmp_path):
    folder = write_run(
        tmp_path, "none", 8, 0, **{"data._target_": "normexp.data.TextFile", "data.kind": "text"}
    )
    edit_summary(folder, metrics={"test/loss": 3 * math.log(2), "test/accuracy": 0.25})
    text = screen(show_result, read_summary(folder), folder, width=160)
    assert (
        next(line for line in text.splitlines() if line.startswith("test")).split("│")[-1].strip() == "3.000"
    )


LOOKS = [({}, ["tensorboard"]), ({"logger": "csv"}, []), ({"logger": ["csv", "mlflow"]}, ["mlflow"]),
         ({"logger": "tensorboard"}, ["tensorboard"])]  # fmt: skip


@pytest.mark.parametrize(("config", "programs"), LOOKS)
def test_each_logger_that_has_a_page_says_how_to_look(monkeypatch, tmp_path, config, programs):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    lines = how_to_look({"outputs": tmp_path, **config}, "study")
    store = f"sqlite:///{(tmp_path / 'mlflow.db').as_posix()}"
    known = {"tensorboard": "tensorboard --logdir study", "mlflow": f"mlflow ui --backend-store-uri {store}"}
    assert lines == [f"look:   {known[program]}" for program in programs]


@pytest.mark.parametrize(
    ("count", "policy", "said"),
    [(1, "PASSIVE", "1 thread"), (2, "ACTIVE", "2 threads"), (2, "passive", "2 threads that wait asleep (")],
)
def test_threads_that_sleep_are_told_where_there_are_several(monkeypatch, count, policy, said):
    monkeypatch.setattr(torch, "get_num_threads", lambda: count)
    monkeypatch.setenv("OMP_WAIT_POLICY", policy)
    assert threads().partition("OMP")[0] == said


@pytest.mark.parametrize(("epochs", "said"), [(3, "epoch 2/3"), (-1, "epoch 2"), (None, "epoch 2")])
def test_a_line_for_each_validation_says_where_the_run_is(epochs, said):
    recorder = SimpleNamespace(latest={}, history=[{"val_accuracy": 0.98, "val_loss": 0.0688}])
    trainer = SimpleNamespace(max_epochs=epochs, current_epoch=1, global_step=34)
    text = screen(lambda console: Lines(recorder, console).on_validation_end(trainer, None))
    assert text == f"{said}  step 34  val 98.00% (loss 0.0688)\n"


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


def test_the_line_of_progress_is_drawn_four_times_a_second(monkeypatch):
    now, bar, drawn = [9.0], Bar(SimpleNamespace()), []
    monkeypatch.setattr("normexp.training.recorder.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(RichProgressBar, "on_train_batch_end", lambda *given: drawn.append(given[-1]))
    for batch in range(17):
        bar.on_train_batch_end(None, None, None, None, batch)
        now[0] += 1 / 16
    assert drawn == [0, 4, 8, 12, 16]


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


def test_the_cost_of_monitors_is_that_of_each_as_often_as_it_measures(tmp_path, make_parts, monkeypatch):
    parts = make_parts("monitor=gradients", "monitor.gradients.every_n_steps=30", "max_steps=100")
    trainer = PreparedRun(parts, tmp_path, Console()).trainer
    monkeypatch.setattr("normexp.training.cost.timed", lambda work: 0.5)
    assert cost_of_monitors(parts, trainer) == (2.5, 5)


def test_work_is_timed_on_one_thread_and_then_there_are_as_many_as_before(two_threads):
    seen = []
    assert timed(lambda: seen.append((torch.get_num_threads(), sum(range(200_000))))) > 0
    assert {count for count, _ in seen} == {1}
    assert torch.get_num_threads() == 2
