"""A network of others for CIFAR-10 with its optimizers: what a bare loop of the same cores makes of it."""

from typing import Any

import torch
from torch import Tensor, nn

from normexp.models.cnn import Whitening
from normexp.optimizers.muon import orthogonalized

from .bare_loop import Peer

WIDTHS = (64, 256, 256)
BATCH_SIZE = 512  # as in table.py; airbench has 2,000, and two cores have time for a few epochs


class MatrixSteps(torch.optim.SGD):
    """Nesterov momentum, orthogonalized in three steps, on filters whose norm is kept at sqrt(C'): airbench's Muon."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                mean.mul_(group["momentum"]).add_(weight.grad)
                direction = (weight.grad + group["momentum"] * mean).flatten(1)
                weight.mul_(len(weight) ** 0.5 / weight.norm())
                weight.sub_(orthogonalized(direction, 3).view_as(weight).float(), alpha=group["lr"])


def airbench(images: Tensor) -> Peer:
    """The network and the rates of `airbench94_muon.py` by Keller Jordan."""
    torch.manual_seed(0)
    whitening = Whitening(3)
    whitening.fit(images[:5000])
    layers: list[nn.Module] = [whitening, nn.GELU()]
    fan_in = 24
    for width in WIDTHS:
        for first in (True, False):
            convolution = nn.Conv2d(fan_in, width, 3, padding=1, bias=False)
            nn.init.dirac_(convolution.weight.data[:fan_in])
            norm = nn.BatchNorm2d(width, momentum=0.4)
            norm.weight.requires_grad_(False)
            layers += [convolution, *[nn.MaxPool2d(2)] * first, norm, nn.GELU()]
            fan_in = width
    head = nn.Linear(fan_in, 10, bias=False)
    head.weight.data /= head.weight.data.std() * fan_in
    network = nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten(), head).to(
        memory_format=torch.channels_last
    )
    trained = [p for p in network.parameters() if p.requires_grad and p is not head.weight]
    rate = 0.67 / fan_in**2  # the head's own factor of 1 / C stands in its weights here
    decay = 2e-6 * BATCH_SIZE
    rest = [
        {"params": [p for p in trained if p.dim() == 1], "lr": 0.053, "weight_decay": decay / 0.053},
        {"params": [head.weight], "lr": rate, "weight_decay": decay / rate},
    ]
    filters = [p for p in trained if p.dim() == 4]
    steps = MatrixSteps(filters, lr=0.24, momentum=0.6)
    return network, [torch.optim.SGD(rest, momentum=0.85, nesterov=True), steps], 0.2
