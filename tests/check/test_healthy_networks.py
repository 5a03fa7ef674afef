"""No false alarms on public networks, fresh and on noise; and the thresholds of docs/check.md."""

import json

import pytest
import torch
from committed import ROOT
from documentation import limits

from normexp.check.run import check
from normexp.config.run_spec import specs
from normexp.training.build import build

ROWS = json.loads((ROOT / "docs" / "data" / "check.json").read_text())
PAGE = (ROOT / "docs" / "check.md").read_text()
FAST = ("timm resnet10t", "timm lcnet_050", "timm convnext_atto", "vit (2 blocks)", "cnn, batchnorm")
LIBRARIES = ("torchvision", "timm", "normexp")


def public_network(library, name):
    if name.startswith("vit"):
        return pytest.importorskip("torchvision").models.VisionTransformer(
            32, 8, 2, 4, 64, 128, num_classes=10
        )
    if library == "timm":
        size = {"img_size": 32} if "vit" in name else {}
        return pytest.importorskip("timm").create_model(name.removeprefix("timm "), num_classes=10, **size)
    more = {"init_weights": True} if name == "googlenet" else {}
    return pytest.importorskip("torchvision").models.get_model(name, weights=None, num_classes=10, **more)


def own_network(name):
    """One of this project's, and noise in the form of its batches."""
    model, norm = name.split(", ")
    text = ["data=text_file", f"data.path={ROOT / 'README.md'}"] if model == "gpt" else ["data=digits"]
    (spec,) = specs([f"model={model}", f"norm={norm}", *text, "batch_size=16", "trainer=cpu"])
    parts = build(spec)
    parts.data.setup("fit")
    x, y = next(iter(parts.data.train_dataloader()))
    return parts.module.model, (torch.randn_like(x) if x.is_floating_point() else x[torch.randperm(16)], y)


def test_page_has_the_thresholds_and_every_network():
    assert limits() in PAGE
    assert [row["network"] for row in ROWS if f"| {row['network']} | {row['norms']} |" not in PAGE] == []
    assert [row["network"] for row in ROWS if any(f["severity"] != "note" for f in row["fresh"])] == []


@pytest.mark.parametrize(
    ("library", "name"),
    [
        pytest.param(row["library"], row["network"], marks=() if row["network"] in FAST else pytest.mark.slow)
        for row in ROWS
        if row["library"] in LIBRARIES
    ],
)
@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_fresh_network_has_no_warning(library, name):
    torch.manual_seed(0)
    if library == "normexp":
        network, batch = own_network(name)
    else:
        network, batch = (
            public_network(library, name),
            (torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))),
        )
    result = check(network, [batch, batch], precision="bf16-mixed", devices=1)
    assert result.ok, str(result)
    assert len(result.healthy) >= 10
