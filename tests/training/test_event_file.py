"""TensorBoard's events after an interruption: each scalar once, in the order of an uninterrupted run."""

from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from normexp.training.loggers.files import EventFile, event_files


def steps(folder: Path) -> list[int]:
    return [
        event.step
        for path in event_files(folder)
        for event in EventFileLoader(str(path)).Load()
        for _ in event.summary.value
    ]


def log(logger: EventFile, *steps: int) -> None:
    for step in steps:
        logger.log_metrics({"train/loss": step / 10}, step=step)


def test_resumed_run_repeats_no_step_and_drops_what_came_after_the_checkpoint(tmp_path):
    first = EventFile(tmp_path, {})
    log(first, 5, 10)
    kept = first.sizes()
    log(first, 15)
    first.close()
    assert steps(tmp_path) == [5, 10, 15]
    second = EventFile(tmp_path, kept)
    assert steps(tmp_path) == [5, 10]
    log(second, 15, 20)
    second.close()
    assert steps(tmp_path) == [5, 10, 15, 20]


def test_run_that_was_stopped_before_its_first_checkpoint_begins_anew(tmp_path):
    first = EventFile(tmp_path, {})
    log(first, 5, 10)
    first.close()
    again = EventFile(tmp_path, {})
    log(again, 5)
    again.close()
    assert steps(tmp_path) == [5]
