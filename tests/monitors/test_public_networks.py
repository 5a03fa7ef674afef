"""Monitors on networks that know nothing of this project: what is found in each, and that nothing of it shows."""

import functools

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


small_vit = functools.partial(
    torchvision.models.VisionTransformer, image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16,
    mlp_dim=32, num_classes=3,
)  # fmt: skip
vision = {
    name: functools.partial(torchvision.models.get_model, name, num_classes=3)
    for name in (
        "resnet18",
        "densenet121",
        "shufflenet_v2_x0_5",
        "mobilenet_v3_small",
        "swin_t",
        "convnext_tiny",
    )
} | {
    "vit": small_vit,
    "googlenet": lambda: torchvision.models.googlenet(num_classes=3, aux_logits=False, init_weights=False),
}
NETWORKS = vision | {
    "functional": Functional, "lstm": Recurrent, "transformer encoder": Encoder, "attention": Attention,
}  # fmt: skip
# places found in the layers: linear maps, norms, activations, embeddings; and activations that are called as functions
FOUND = {
    "resnet18": (21, 20, 9, 0, 0),
    "densenet121": (121, 121, 120, 0, 1),
    "shufflenet_v2_x0_5": (57, 56, 37, 0, 0),
    "mobilenet_v3_small": (54, 34, 42, 0, 0),
    "swin_t": (53, 29, 12, 0, 0),
    "convnext_tiny": (59, 23, 18, 0, 0),
    "vit": (8, 5, 2, 0, 0),
    "googlenet": (58, 57, 0, 0, 57),
    "functional": (4, 0, 0, 0, 4),
    "lstm": (2, 0, 0, 1, 1),
    "transformer encoder": (7, 4, 0, 1, 2),
    "attention": (2, 1, 0, 1, 1),
}
TOKENS = ("lstm", "transformer encoder", "attention")


def module(name):
    torch.manual_seed(0)
    return Classifier(NETWORKS[name]())


def loader(name, count=3, size=4):
    generator = torch.Generator().manual_seed(0)
    n = count * size
    x = torch.randn(n, 3, 32, 32, generator=generator)
    if name in TOKENS:
        x = torch.randint(11, (n, 5), generator=generator)
    return DataLoader(TensorDataset(x, torch.randint(3, (n,), generator=generator)), batch_size=size)


@pytest.mark.integration
@pytest.mark.parametrize("name", NETWORKS)
def test_table_of_what_is_found(name):
    watched = module(name)
    kinds = [site.kind for site in sites_of(watched)]
    activations = Activations(every_n_steps=1, places=["norm_input", "activation"])
    values = activations.measure(watched, next(iter(loader(name))))
    at = {
        kind: {tag for tag in values if tag.startswith(f"{kind}_mean/")}
        for kind in ("norm_input", "activation")
    }
    modules = kinds.count("activation")
    layers = {f"activation_mean/{site.layer}" for site in sites_of(watched)}
    called = at["activation"] - layers
    found = (kinds.count("linear"), kinds.count("norm"), modules, kinds.count("embedding"), len(called))
    assert found == FOUND[name]
    assert len(at["norm_input"]) == kinds.count("norm")
    assert len(at["activation"] & layers) == modules
    names = sorted(tag.split("/")[1] for tag in called)
    assert all(any(name.startswith(f"{site.layer}_") for site in sites_of(watched)) for name in names)
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


def test_what_is_said_of_a_function_is_what_is_said_of_the_module():
    """The same network written both ways."""

    class Modules(Functional):
        def __init__(self):
            super().__init__()
            self.relu1, self.relu2, self.gelu, self.tanh = nn.ReLU(), nn.ReLU(), nn.GELU(), nn.Tanh()

        def forward(self, x):
            x = self.relu2(self.conv2(self.relu1(self.conv1(x)))).mean((2, 3))
            return self.fc2(self.tanh(self.gelu(self.fc1(x))))

    def measured(network):
        torch.manual_seed(0)
        watched = Classifier(network())
        monitors = [EVERY["activations"](1), EVERY["gradients"](1), EVERY["representation"](1)]
        batch = next(iter(loader("functional")))
        return {tag: value for m in monitors for tag, value in m.measure(watched, batch).items()}

    called, modules = measured(Functional), measured(Modules)
    layers = {  # as a function, as a module
        "layer00_model_conv1_relu": "layer04_model_relu1", "layer01_model_conv2_relu": "layer05_model_relu2",
        "layer02_model_fc1_gelu": "layer06_model_gelu", "layer02_model_fc1_tanh": "layer07_model_tanh",
    }  # fmt: skip
    seen = 0
    for tag, value in called.items():
        statistic, layer = tag.split("/")
        if layer in layers:
            seen += 1
            assert value == pytest.approx(modules[f"{statistic}/{layers[layer]}"], rel=1e-5, nan_ok=True), tag
    assert seen >= 4 * 12
    assert "saturated_fraction/layer02_model_fc1_tanh" in called
