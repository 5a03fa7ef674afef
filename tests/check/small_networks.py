"""A small network with BatchNorm, and some steps of its training, for the tests of checks."""

import torch
from torch import nn
from torch.nn import functional as F


def cnn(classes=3, bias=False):
    body = [nn.Conv2d(3, 8, 3, bias=bias), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))


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
