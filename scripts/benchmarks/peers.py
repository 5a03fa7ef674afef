"""Two networks of others for CIFAR-10, with their optimizers: what a bare loop of the same cores makes of them."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normexp.config.run_spec import specs
from normexp.models.cnn import Whitening
from normexp.optimizers.muon import orthogonalized
from normexp.training.train import build

WIDTHS = (64, 256, 256)
Peer = tuple[nn.Module, list[Any], float, int]  # network, optimizers, label smoothing, batch size


class Images:
    """The images that `recipe=fast` trains on, flipped and shifted by up to two pixels."""

    def __init__(self, folder: Path):
        self.path = folder / "cifar10_jpeg.tar.gz"
        words = ["model=cnn", "data=cifar10_jpeg", f"data.path={self.path}", "recipe=fast"]
        splits = build(*specs(words)).data.splits
        self.rows = {name: (split.x, split.y) for name, split in splits.items()}
        self.inputs, self.targets = splits["train"]
        self.padded = F.pad(self.inputs, (2,) * 4, mode="reflect")
        self.order = torch.empty(0, dtype=torch.long)

    def batch(self, size: int) -> tuple[Tensor, Tensor]:
        """(images (N, C, 32, 32), labels) of the next N of a shuffled pass."""
        if len(self.order) < size:
            self.order = torch.randperm(len(self.inputs))
        rows, self.order = self.order[:size], self.order[size:]
        top, left = torch.randint(0, 5, (2, size, 1, 1))
        side = torch.arange(32)
        columns = left + torch.where(torch.rand(size, 1, 1) < 0.5, side, side.flip(0))
        images = self.padded.permute(0, 2, 3, 1)[rows[:, None, None], top + side[:, None], columns]
        return images.permute(0, 3, 1, 2), self.targets[rows]

    @torch.no_grad()
    def accuracy(self, net: nn.Module, split: str) -> float:
        """Of the answers on a split, in bfloat16."""
        inputs, targets = self.rows[split]
        net.eval()
        with torch.autocast("cpu", torch.bfloat16):
            answers = torch.cat([net(part).argmax(1) for part in inputs.split(500)])
        net.train()
        return (answers == targets).double().mean().item()


class MatrixSteps(torch.optim.SGD):
    """Nesterov momentum, orthogonalized in three steps, on filters whose norm is kept at sqrt(C'): airbench's Muon."""

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                mean = self.state[weight].setdefault("mean", torch.zeros_like(weight))
                mean.mul_(group["momentum"]).add_(weight.grad)
                direction = (weight.grad + group["momentum"] * mean).flatten(1)
                weight.mul_(len(weight) ** 0.5 / weight.norm())
                weight.sub_(orthogonalized(direction, 3).view_as(weight).float(), alpha=group["lr"])


def airbench(images: Images) -> Peer:
    """The network and the rates of `airbench94_muon.py` by Keller Jordan, with batches of 512 in place of 2,000: two
    cores have time for a few epochs."""
    whitening = Whitening(3)
    whitening.fit(images.inputs[:5000])
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
    net = nn.Sequential(*layers, nn.MaxPool2d(3), nn.Flatten(), head).to(memory_format=torch.channels_last)
    trained = [p for p in net.parameters() if p.requires_grad and p is not head.weight]
    size, rate = 512, 0.67 / fan_in**2  # the head's own factor of 1 / C stands in its weights here
    decay = 2e-6 * size
    rest = [
        {"params": [p for p in trained if p.dim() == 1], "lr": 0.053, "weight_decay": decay / 0.053},
        {"params": [head.weight], "lr": rate, "weight_decay": decay / rate},
    ]
    filters = [p for p in trained if p.dim() == 4]
    return (
        net,
        [torch.optim.SGD(rest, momentum=0.85, nesterov=True), MatrixSteps(filters, lr=0.24, momentum=0.6)],
        0.2,
        size,
    )


def resnet(images: Images) -> Peer:
    """ResNet-20 as He et al. 2015 trained it: SGD at 0.1, batches of 128."""
    words = [
        "model=resnet",
        "norm=batchnorm",
        "data=cifar10_jpeg",
        f"data.path={images.path}",
        "recipe=plain",
    ]
    net = build(*specs(words)).module.model.to(memory_format=torch.channels_last)
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    return net, [sgd], 0.0, 128
