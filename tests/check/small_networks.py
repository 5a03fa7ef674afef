"""Small networks, their batches, and a training, for the tests of checks."""

import torch
from torch import nn
from torch.nn import functional as F


def command(*words):
    """`normexp check WORDS`, in this process."""
    from normexp.cli.main import run

    return run("check", list(words))


def rows(n=32, features=6, classes=3):
    return torch.randn(n, features), torch.randint(0, classes, (n,))


def images(n=16):
    return torch.randn(n, 3, 8, 8), torch.randint(0, 3, (n,))


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
