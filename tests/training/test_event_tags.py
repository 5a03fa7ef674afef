"""What TensorBoard is given: accuracy and loss first, and the table of hyperparameters."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.metadata import (
    EXPERIMENT_TAG,
    SESSION_START_INFO_TAG,
    parse_experiment_plugin_data,
    parse_session_start_info_plugin_data,
)

from normexp.training.loggers.files import MAIN, hyperparameters


@pytest.fixture
def events(train):
    summary, folder = train("monitor=light", "norm=layernorm", "batch_size=16", "max_steps=30")
    seen = EventAccumulator(str(folder))
    seen.Reload()
    return summary, seen


def test_accuracy_and_loss_come_first(events):
    _, seen = events
    # TensorBoard sorts the same way: capitals first.
    groups = sorted({tag.split("/")[0] for tag in seen.Tags()["scalars"]})
    assert groups[:2] == ["Accuracy", "Loss"]
    assert {"Accuracy/train", "Accuracy/val", "Loss/train", "Loss/val"} <= set(seen.Tags()["scalars"])


def test_hyperparameters_have_short_names_whole_numbers_and_an_order(events):
    summary, seen = events
    content = seen.SummaryMetadata(EXPERIMENT_TAG).plugin_data.content
    experiment = parse_experiment_plugin_data(content)
    # In the order of TensorBoard.
    shown = sorted(experiment.hparam_infos, key=lambda info: (not info.differs, info.name))
    assert [info.display_name for info in shown[: len(MAIN)]] == list(MAIN)
    assert all("settings" not in info.display_name for info in shown)
    assert "depth" in {info.display_name for info in shown}
    start = parse_session_start_info_plugin_data(
        seen.SummaryMetadata(SESSION_START_INFO_TAG).plugin_data.content
    )
    values = {info.display_name: start.hparams[info.name] for info in shown}
    assert values["batch_size"].string_value.strip() == "16"
    assert values["lr"].number_value == summary["config"]["lr"]
    assert values["norm"].string_value == "layernorm"
    names = {info.name.tag: info.display_name for info in experiment.metric_infos}
    assert names["final/test_accuracy"] == "test accuracy"
    assert seen.Scalars("final/test_accuracy")[0].value == pytest.approx(summary["metrics"]["test/accuracy"])


def test_the_rate_is_the_one_that_trained(events):
    summary, _ = events
    config = summary["config"] | {"optimizer": summary["config"]["optimizer"] | {"lr": 0.5}}
    assert hyperparameters(summary | {"config": config})["lr"] == 0.5


def test_texts_of_whole_numbers_sort_as_they_do():
    from normexp.training.loggers.files import _text

    numbers = [2, 16, 100, 64, 1149, 0]
    assert [int(text) for text in sorted(map(_text, numbers))] == sorted(numbers)
    assert _text(True) is True
    assert _text(0.1) == 0.1
