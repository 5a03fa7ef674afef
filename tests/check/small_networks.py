"""Small networks, their batches, and a training, for the tests of checks."""

import json

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F


def command(*words):
    """`normexp check WORDS`, in this process."""
    from normexp.cli.main import run

    return run("check", list(words))


def told(capsys, *words, status=0):
    """What `normexp check WORDS --json` prints."""
    capsys.readouterr()
    assert command(*words, "--json") == status
    return json.loads(capsys.readouterr().out)


def rows(n=32, features=6, classes=3):
    return torch.randn(n, features), torch.randint(0, classes, (n,))


def images(n=16):
    return torch.randn(n, 3, 8, 8), torch.randint(0, 3, (n,))


def tokens(n=16, length=12, padded=False):
    """Tokens that are their own targets. `padded`: of 3 to `length` of them, then zeros."""
    x = torch.randint(1, 11, (n, length))
    x = x * (torch.arange(length) < torch.randint(3, length + 1, (n, 1))) if padded else x
    return x, x


class Own(nn.Module):
    """A network of parts, with a forward of a line."""

    def __init__(self, forward, **parts):
        super().__init__()
        self.run = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.run(self, x)


def around(norm, width=8, classes=3):
    """A network of rows: linear map, norm, linear map."""
    return nn.Sequential(nn.Linear(6, width), norm, nn.Linear(width, classes))


def mlp(*norms, bias=False):
    layers = []
    for norm in norms or (nn.BatchNorm1d(8), nn.BatchNorm1d(8)):
        layers += [nn.Linear(8 if layers else 6, 8, bias=bias), norm, nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(8, 3))


def cnn(classes=3, bias=False):
    body = [nn.Conv2d(3, 8, 3, bias=bias), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))


def found(name, healthy, faulty):
    """The finding of the faulty check; the healthy one has none and was checked."""
    assert name in healthy.healthy, (str(healthy), healthy.not_checked)
    assert name in faulty, (str(faulty), faulty.not_checked)
    return faulty[name]


class HandRMS(nn.Module):
    """RMSNorm by hand, which squares in float32 or in the type of its input."""

    def __init__(self, width, *, wide, eps=1e-6):
        super().__init__()
        self.weight, self.wide, self.eps = nn.Parameter(torch.ones(width)), wide, eps

    def forward(self, x):
        y = x.float() if self.wide else x
        y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + self.eps)
        return (self.weight.to(y.dtype) * y).to(x.dtype)


HandRMS.__name__ = "HandRMSNorm"


class WideRMSNorm(HandRMS):
    """Its gain of float32 makes its output so."""

    def forward(self, x):
        return self.weight * super().forward(x)


class Sequence(nn.Module):
    """Token vectors (N, T, C), one causal or backward-looking sum, a norm, and logits at each position."""

    def __init__(self, norm, causal=True):
        super().__init__()
        self.embedding, self.norm, self.causal = nn.Embedding(11, 8), norm, causal
        self.output = nn.Linear(8, 11)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x.cumsum(1) if self.causal else x + x.mean(1, keepdim=True)
        if isinstance(self.norm, nn.LayerNorm):
            return self.output(self.norm(x))
        return self.output(self.norm(x.transpose(1, 2)).transpose(1, 2))


class Called(nn.Module):
    """A layer that calls a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def train(model, batches, steps=None, rate=0.05, after=lambda: None):
    """Steps of SGD, one a batch or as many as are asked, with something done after each."""
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], rate)
    for step in range(steps or len(batches)):
        x, y = batches[step % len(batches)]
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        after()
    return model


class Lit(pl.LightningModule):
    """Trains a network by its squares; `read` takes the input out of a batch."""

    def __init__(self, net, read=lambda batch: batch):
        super().__init__()
        self.net, self.read = net, read

    def training_step(self, batch, index):
        return self.net(self.read(batch)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def fit(module, callbacks, loader, folder, **options):
    """The module, trained by a Trainer."""
    trainer = pl.Trainer(
        accelerator="cpu", callbacks=callbacks, logger=False, enable_checkpointing=False, default_root_dir=folder,
        enable_progress_bar=False, enable_model_summary=False, **options,
    )  # fmt: skip
    pl.seed_everything(0, verbose=False)
    trainer.fit(module, loader)
    return module
