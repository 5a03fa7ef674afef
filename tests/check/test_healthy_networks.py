"""No false alarms on noise, on public networks and on this project's."""

import pytest
import torch
from committed import ROOT

from normexp.check.run import check
from normexp.config.run_spec import specs
from normexp.training.build import build

TIMM = ("resnet10t", "lcnet_050", "convnext_atto")
OWN = [
    (model, norm)
    for model in ("mlp", "cnn", "resnet", "transformer", "gpt")
    for norm in ("layernorm", "batchnorm")
]


def public_network(name):
    if name == "vit":
        vit = pytest.importorskip("torchvision").models.VisionTransformer
        return vit(32, 8, 2, 4, 64, 128, num_classes=10)
    return pytest.importorskip("timm").create_model(name, num_classes=10)


def own_network(model, norm):
    """One of this project's, and noise in the form of its batches."""
    text = ["data=text_file", f"data.path='{ROOT / 'README.md'}'"] if model == "gpt" else ["data=digits"]
    (spec,) = specs([f"model={model}", f"norm={norm}", *text, "batch_size=16", "trainer=cpu"])
    parts = build(spec)
    parts.data.setup("fit")
    x, y = next(iter(parts.data.train_dataloader()))
    return parts.module.model, (torch.randn_like(x) if x.is_floating_point() else x[torch.randperm(16)], y)


@pytest.mark.parametrize("name", [*TIMM, "vit", *OWN[:-1]], ids=str)  # batchnorm shows gpt the future
@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_fresh_network_has_no_warning(name):
    torch.manual_seed(0)
    batch = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    network, batch = own_network(*name) if name in OWN else (public_network(name), batch)
    result = check(network, [batch, batch], precision="bf16-mixed", devices=1)
    assert result.ok, str(result)
    assert len(result.healthy) >= 10
