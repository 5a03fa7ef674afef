import re

from pytorch_lightning.loggers import TensorBoardLogger
from small_module import Small, fit
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2

from normexp.monitors import Activations, Charts, Gradients
from normexp.monitors.charts import layout


def test_layout_has_all_layers_of_a_statistic_in_one_chart_and_bands_by_layer():
    names, layers = ("std", "p15", "p50", "p85"), ("layer00", "layer01")
    recorded = {f"activation_{name}/{layer}": [(0, 1.0)] for name in names for layer in layers}
    gradients = {f"gradient_norm/{at}": [(0, 1.0)] for at in ("layer00", "network")}
    pages = layout({"Activations": recorded, "Gradients": gradients})
    assert pages["Activations"]["activation_std"] == ["Multiline", ["^activation_std/"]]
    assert pages["Gradients"] == {"gradient_norm": ["Multiline", ["^gradient_norm/"]]}
    ours, others = ["Loss/val", "Accuracy/val"], ["val_loss", "validation_accuracy"]
    none = ["Loss/train", "final/val_loss", "loss_val_batch/network", "accuracy_val_batch/network"]
    for kind, chart in (("loss", "validation loss"), ("acc", "validation accuracy")):
        (glob,) = pages["First"][chart][1]
        shown = [tag for tag in ours + others + none if re.search(glob, tag)]
        assert shown == [tag for tag in ours + others if kind in tag.lower()]
    assert list(pages["First"]) == ["validation accuracy", "validation loss", "gradient_norm"]
    assert pages["First"]["gradient_norm"] == ["Multiline", ["^gradient_norm/network$"]]
    band = ["activation_p50/layer01", "activation_p15/layer01", "activation_p85/layer01"]
    assert pages["Percentile bands"]["activation/layer01"] == ["Margin", band]
    assert list(pages) == ["First", "Percentile bands", "Activations", "Gradients"]
    assert list(pages["Percentile bands"]) == ["activation/layer01", "activation/layer00"]  # drawn last first


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
    assert len(seen.Tensors("custom_scalars__config__")) == 2  # with the first values, and at the end
    tag = next(tag for tag in seen.Tags()["scalars"] if tag.startswith("activation_std/"))
    assert [event.step for event in seen.Scalars(tag)] == [0, 2, 4, 6]
    titles = {page.title for page in custom_layout(seen).category}
    assert titles == {"Activations", "First", "Gradients", "Percentile bands"}
