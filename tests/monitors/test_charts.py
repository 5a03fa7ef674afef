import re

import torch
from pytorch_lightning.loggers import TensorBoardLogger
from small_module import Small, batches, fit
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2

from normexp.monitors import Activations, Charts, Gradients, measure_without_fit
from normexp.monitors.charts import layout


def test_layout_has_all_layers_of_a_statistic_in_one_chart_and_bands_by_layer():
    names, layers = ("std", "p15", "p50", "p85"), ("layer00", "layer01")
    recorded = {f"activation_{name}/{layer}": [(0, 1.0)] for name in names for layer in layers}
    pages = layout({"Activations": recorded, "Gradients": {"gradient_norm/layer00": [(0, 1.0)]}})
    assert pages["Activations"]["activation_std"] == ["Multiline", ["^activation_std/"]]
    assert pages["Gradients"] == {"gradient_norm": ["Multiline", ["^gradient_norm/"]]}
    band = ["activation_p50/layer01", "activation_p15/layer01", "activation_p85/layer01"]
    assert pages["Percentile bands"]["activation/layer01"] == ["Margin", band]
    assert list(pages) == ["First", "Percentile bands", "Activations", "Gradients"]
    assert list(pages["Percentile bands"]) == ["activation/layer01", "activation/layer00"]  # drawn last first


def test_the_first_page_has_one_line_a_run():
    tags = ["gradient_norm/layer00", "gradient_norm/network"]
    first = layout({"Gradients": {tag: [(0, 1.0)] for tag in tags}})["First"]
    assert list(first) == ["validation accuracy", "validation loss", "gradient_norm"]
    known = [*tags, "Accuracy/val", "Accuracy/train", "Loss/val", "Loss/train", "val_loss", "val_acc", "loss"]
    known += ["final/val_accuracy", "update_ratio/layer00"]
    shown = {
        title: [tag for tag in known if re.match(pattern, tag)] for title, (_, (pattern,)) in first.items()
    }
    assert shown == {
        "validation accuracy": ["Accuracy/val", "val_acc"],
        "validation loss": ["Loss/val", "val_loss"],
        "gradient_norm": ["gradient_norm/network"],
    }


def events(path):
    accumulator = EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def custom_layout(accumulator):
    message = accumulator.Tensors("custom_scalars__config__")[-1].tensor_proto.string_val[0]
    return layout_pb2.Layout.FromString(message)


def test_tensorboard_gets_scalars_and_layout(tmp_path):
    logger = TensorBoardLogger(tmp_path, name="", version="")
    watch = Activations(every_n_steps=2)
    fit(Small(), [watch, Gradients(every_n_steps=2), Charts()], steps=6, logger=logger)
    seen = events(tmp_path)
    tag = next(tag for tag in seen.Tags()["scalars"] if tag.startswith("activation_std/"))
    assert [event.step for event in seen.Scalars(tag)] == [0, 2, 4, 6]
    assert {page.title for page in custom_layout(seen).category} == {
        "Activations",
        "First",
        "Gradients",
        "Percentile bands",
    }


def test_a_run_of_no_steps_has_values_and_charts(tmp_path):
    logger = TensorBoardLogger(tmp_path, name="", version="")
    monitors = [Activations(every_n_steps=50), Gradients(every_n_steps=50), Charts()]
    module = Small()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    values = measure_without_fit(monitors, module, batches(1).dataset.tensors, [logger])
    logger.finalize("success")
    seen = events(tmp_path)
    assert set(values) == set(seen.Tags()["scalars"]) - {"hp_metric"}
    assert custom_layout(seen).category
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
