"""TensorBoard's HParams table of runs, as torch's `hparams` writes it, but with short names in our own order."""

from collections.abc import Mapping
from typing import Any

from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.api_pb2 import (
    DataType,
    Experiment,
    HParamInfo,
    MetricInfo,
    MetricName,
    Status,
)
from tensorboard.plugins.hparams.metadata import (
    EXPERIMENT_TAG,
    NULL_TENSOR,
    PLUGIN_DATA_VERSION,
    SESSION_END_INFO_TAG,
    SESSION_START_INFO_TAG,
    create_summary_metadata,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

from normexp.runs.columns import flat

MAIN = ("norm", "model", "batch_size", "lr", "seed", "status")
DIGITS = 6  # whole numbers are padded to this width, so that their texts sort like numbers


def hyperparameters(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The values by which the table filters and sorts: the main settings, then all others under their short names.

    Whole numbers are texts, because TensorBoard would show a batch size of 64 as 64.000.
    """
    config, choices = summary["config"], summary["choices"]
    row = {name: config.get(name, summary["status"]) for name in MAIN} | {
        name: choices[name] for name in ("model", "norm")
    }
    settings = {key: config[key] for key in ("max_epochs", "max_steps")} | {
        key: choices[key] for key in choices
    }
    settings |= flat(config["model"]) | flat({"norm": config["norm"]})
    row |= {key: value for key, value in settings.items() if key not in row and value is not None}
    return {key: _text(value) for key, value in row.items()}


def _text(value: Any) -> Any:
    return f"{value:>{DIGITS}}" if isinstance(value, int) and not isinstance(value, bool) else value


def hyperparameter_metrics(summary: Mapping[str, Any]) -> dict[str, float]:
    """The result columns of the table, tag -> value, equal for every run, diverged ones too. By default TensorBoard
    shows the first five, so the status and the accuracies come before the losses."""
    metrics = sorted(summary["metrics"].items(), key=lambda item: item[0].endswith("loss"))
    diverged = {"final/diverged": float(summary["status"] == "diverged")}
    return diverged | {f"final/{name.replace('/', '_')}": value for name, value in metrics}


def rows(params: Mapping[str, Any], metrics: Mapping[str, float]) -> list[Summary]:
    """The three summaries that add a run to the table."""
    infos = [
        # TensorBoard sorts by `differs`, then by name, and shows the first five by default.
        HParamInfo(name=f"{_place(name)}{name}", display_name=name, type=_type(value), differs=name in MAIN)
        for name, value in params.items()
    ]
    names = [
        MetricInfo(name=MetricName(tag=tag), display_name=tag.removeprefix("final/").replace("_", " "))
        for tag in metrics
    ]
    start = SessionStartInfo()
    for info, value in zip(infos, params.values(), strict=True):
        field = {DataType.DATA_TYPE_BOOL: "bool_value", DataType.DATA_TYPE_FLOAT64: "number_value"}
        setattr(start.hparams[info.name], field.get(info.type, "string_value"), value)
    return [
        _summary(EXPERIMENT_TAG, experiment=Experiment(hparam_infos=infos, metric_infos=names)),
        _summary(SESSION_START_INFO_TAG, session_start_info=start),
        _summary(SESSION_END_INFO_TAG, session_end_info=SessionEndInfo(status=Status.STATUS_SUCCESS)),
    ]


def _place(name: str) -> str:
    return f"{MAIN.index(name)} " if name in MAIN else ""


def _type(value: Any) -> Any:
    if isinstance(value, bool):
        return DataType.DATA_TYPE_BOOL
    return DataType.DATA_TYPE_FLOAT64 if isinstance(value, int | float) else DataType.DATA_TYPE_STRING


def _summary(tag: str, **content: Any) -> Summary:
    data = HParamsPluginData(version=PLUGIN_DATA_VERSION, **content)
    return Summary(value=[Summary.Value(tag=tag, metadata=create_summary_metadata(data), tensor=NULL_TENSOR)])
