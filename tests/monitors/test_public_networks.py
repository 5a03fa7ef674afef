"""Monitors on networks that know nothing of this project: what is found in each, and that nothing of it shows."""

import pytest
import pytorch_lightning as pl
import torch
import torchvision
from small_module import fit
from test_base import EVERY, assert_same, hooks
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from normexp.models.sites import sites_of
from normexp.monitors import Activations


class Classifier(pl.LightningModule):
    """A user's network, and the loss."""

    def __init__(self, model):
        super().__init__()
        self.model, self.losses = model, []

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(11, 8), nn.LSTM(8, 12, num_layers=2, batch_first=True)
        self.output = nn.Linear(12, 3)

    def forward(self, tokens):
        return self.output(torch.tanh(self.lstm(self.embedding(tokens))[0].mean(1)))


class Encoder(nn.Module):
    """torch's encoder: attention without a call of its output map, and the activation as a function."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.encoder, self.output = nn.TransformerEncoder(layer, 2), nn.Linear(8, 3)

    def forward(self, tokens):
        return self.output(self.encoder(src=self.embedding(tokens)).mean(1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.attention = nn.Embedding(11, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.output = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = self.norm(input=x + self.attention(query=x, key=x, value=x, need_weights=False)[0])
        return self.output(x.mean(1)).sigmoid()


class Functional(nn.Module):
    """The way of torch's tutorials."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 3)
        self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = F.relu(self.conv1(x), inplace=True)
        x = torch.relu_(self.conv2(x)).mean((2, 3))
        return self.fc2(F.gelu(self.fc1(x)).tanh())


def vit():
    return torchvision.models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=3)


def googlenet():
    return torchvision.models.googlenet(num_classes=3, aux_logits=False, init_weights=False)


# Linear maps, norms, activations and embeddings among the layers; and activations that are called as functions.
FOUND = {
    "resnet18": (21, 20, 9, 0, 0), "densenet121": (121, 121, 120, 0, 1), "shufflenet_v2_x0_5": (57, 56, 37, 0, 0),
    "mobilenet_v3_small": (54, 34, 42, 0, 0), "swin_t": (53, 29, 12, 0, 0), "convnext_tiny": (59, 23, 18, 0, 0),
    "vit": (8, 5, 2, 0, 0), "googlenet": (58, 57, 0, 0, 57), "functional": (4, 0, 0, 0, 4), "lstm": (2, 0, 0, 1, 1),
    "transformer encoder": (7, 4, 0, 1, 2), "attention": (2, 1, 0, 1, 1),
}  # fmt: skip
NETWORKS = {
    "functional": Functional, "lstm": Recurrent, "transformer encoder": Encoder, "attention": Attention, "vit": vit,
    "googlenet": googlenet,
}  # fmt: skip
TOKENS = ("lstm", "transformer encoder", "attention")


def module(name):
    torch.manual_seed(0)
    return Classifier(
        NETWORKS[name]() if name in NETWORKS else torchvision.models.get_model(name, num_classes=3)
    )


def loader(name, count=3, size=4):
    generator = torch.Generator().manual_seed(0)
    n = count * size
    x = torch.randn(n, 3, 32, 32, generator=generator)
    if name in TOKENS:
        x = torch.randint(11, (n, 5), generator=generator)
    return DataLoader(TensorDataset(x, torch.randint(3, (n,), generator=generator)), batch_size=size)


@pytest.mark.integration
@pytest.mark.parametrize("name", FOUND)
def test_table_of_what_is_found(name):
    watched = module(name)
    sites = sites_of(watched)
    kinds = [site.kind for site in sites]
    activations = Activations(every_n_steps=1, places=["norm_input", "activation"], statistics=["mean"])
    tags = [tag.split("/") for tag in activations.measure(watched, next(iter(loader(name))))]
    norms, heard = ({at for name, at in tags if name == f"{place}_mean"} for place in activations.places)
    called = heard - {site.layer for site in sites}
    counts = [kinds.count(kind) for kind in ("linear", "norm", "activation", "embedding")]
    assert (*counts, len(called)) == FOUND[name]
    assert (len(norms), len(heard - called)) == (counts[1], counts[2])
    assert all(any(name.startswith(f"{site.layer}_") for site in sites) for name in called)
    assert hooks(watched) == 0


SMALL = ("functional", "lstm", "transformer encoder", "attention", "shufflenet_v2_x0_5")


@pytest.mark.parametrize("name", SMALL)
def test_training_is_bit_identical_with_the_light_monitors_on_and_off(name):
    plain, watched = module(name), module(name)
    fit(plain, [], steps=3, loader=loader(name))
    lines = fit(watched, [EVERY["activations"](2), EVERY["gradients"](2)], steps=3, loader=loader(name))
    assert {step for step, _ in lines.values} == {0, 2, 3}
    assert_same(watched.losses, plain.losses)
    assert_same(watched.state_dict(), plain.state_dict())
    assert "training_step" not in watched.__dict__
    assert hooks(watched) == 0
