"""Cells of the studies, trained again by plain PyTorch: `python scripts/research/bare_studies.py DATA [CLAIM ...]`.

DATA has a folder mnist and cifar10_jpeg.tar.gz. Nothing of normexp is used; weights, batches and the images left out
of training are drawn anew, at the rates that the kept runs chose. A loop agrees if the spans of both over seeds
overlap, or lie less than .5 points apart. Exits 1 if one does not. Writes docs/data/bare_studies.json.
"""

# mypy: ignore-errors
import itertools
import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

import torch
from bare_loops import Block, moved, read_cifar, read_mnist, resnet
from kept_runs import best_runs
from torch import nn
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).parents[2]
RESULT, SEEDS = ROOT / "docs/data/bare_studies.json", (101, 102, 103)


class Cell(NamedTuple):
    """A network and how it is trained. An `mlp` has Xavier's weights if it is sigmoid, else He's. A `cnn` has 3x3
    convolutions of 16, 32, 64 channels with ReLU, each pooled before its norm. A `resnet` of 16, 32, 64 channels trains
    on CIFAR-10, whose images move."""

    depth: int
    steps: int
    optimizer: str
    activation: str = "sigmoid"
    width: int = 128
    images: int = 55000
    batch: int = 128
    decay: float = 0.01
    network: str = "mlp"


SIX, EIGHT, DEEP = Cell(6, 3000, "adamw"), Cell(8, 2000, "sgd", decay=0.0), Cell(32, 2000, "sgd", decay=0.0)
LONG, RELU = Cell(6, 10000, "adamw"), Cell(6, 3000, "adamw", "relu")
CNN = Cell(3, 800, "adamw", "relu", network="cnn")
RESNET = Cell(8, 1050, "adamw", "relu", images=45000, network="resnet")
D003 = Cell(8, 1076, "adamw", "tanh", 256, 6195, 23, 0.0)
D010 = Cell(12, 2416, "sgd", "tanh", 32, 12559, 83, 0.0)
ANEW = ("N7", "N9")  # they test BatchNorm, too, with statistics estimated anew
# Two cells and more of each plan: claim, arm.
CELLS = {
    **{("N1", arm): SIX for arm in ("noise", "walk")},
    **{("L1", arm): EIGHT for arm in ("first_half", "last_half", "adam_first", "adam_all")},
    **{("I1", arm): EIGHT for arm in ("centered", "units")},
    **{("I2", arm): DEEP for arm in ("centered", "units")},
    **{("B1", arm): SIX for arm in ("detached", "frozen_100")},
    **{("V5", arm): LONG for arm in ("none", "batchnorm")},
    **{("N5", arm): RELU for arm in ("noise", "none")},
    **{("N6", arm): CNN for arm in ("noise", "none", "batchnorm")},
    **{("N7", arm): RESNET for arm in ("none", "batchnorm", "noise")},
    **{("N9", arm): RESNET for arm in ("batchnorm", "noise")},
    **{("R3", arm): RESNET for arm in ("skip_init", "batchnorm")},
    **{("N8 d003", arm): D003 for arm in ("noise", "none")},
    **{("N8 d010", arm): D010 for arm in ("noise", "none", "batchnorm")},
}


class Gate(nn.Module):
    """A branch times a number that starts at 0 (SkipInit: De, Smith 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gain * x


class Norm(nn.modules.batchnorm._BatchNorm):
    """BatchNorm of one arm. A displaced one adds a mean and a scale to each unit, whose place is drawn or walks."""

    def __init__(self, num_features: int, arm: str) -> None:
        super().__init__(num_features)
        self.arm, self.place, self.still = arm, None, False

    def _check_input_dim(self, x: torch.Tensor) -> None:
        """Of vectors and images alike."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.arm == "detached" and self.training:
            var, mean = torch.var_mean(x.detach(), 0, correction=0)
            super().forward(x.detach())  # the running statistics
            return (x - mean) / (var + self.eps).sqrt() * self.weight + self.bias
        if self.arm == "frozen_100" and self.training and self.num_batches_tracked >= 100:
            scale = (self.running_var + self.eps).sqrt()
            return (x - self.running_mean) / scale * self.weight + self.bias
        y = super().forward(x)
        moves = self.training and not self.still
        if self.arm not in ("noise", "walk"):
            return y
        if moves:
            if self.place is None or self.arm == "noise":
                self.place = torch.rand(2, y.shape[1]) * 2 - 1
            else:
                there = self.place + 0.1 * torch.randn_like(self.place)
                self.place = torch.where(there.abs() > 1, there.sign() * 2 - there, there)
        elif self.arm == "noise":
            return y  # the noise is off
        first, second = self.place.view(2, 1, -1, *[1] * (y.ndim - 2))
        shift, scale = 0.5 * first, 1 + 0.25 * (second + 1) / 2
        if moves:
            shift = shift + torch.empty_like(y).uniform_(-0.1, 0.1)
            scale = scale + 0.1 * torch.randn_like(y)
        return y * scale + shift


ACTIVATIONS = {"sigmoid": nn.Sigmoid, "relu": nn.ReLU, "tanh": nn.Tanh}


def cnn(arm: str) -> nn.Sequential:
    """Convolution, pooling, norm, ReLU, three times; then the mean over pixels and a linear map."""
    layers = [nn.Unflatten(1, (1, 28, 28))]
    for channels, more in itertools.pairwise((1, 16, 32, 64)):
        norm = nn.Identity() if arm == "none" else Norm(more, arm)
        layers += [nn.Conv2d(channels, more, 3, padding=1), nn.MaxPool2d(2), norm, nn.ReLU()]
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    for layer in network:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return network


def narrow_resnet(arm: str) -> nn.Sequential:
    """The ResNet of bare_loops.py, half as wide as there; with SkipInit each branch ends in a gate."""
    with_norm = arm in ("batchnorm", "noise")
    network = resnet(lambda channels: Norm(channels, arm) if with_norm else nn.Identity(), 16)
    for block in network.children():
        if isinstance(block, Block) and arm == "skip_init":
            block.branch[-1] = Gate()
    return network


def mlp(arm: str, cell: Cell, images: torch.Tensor) -> nn.Sequential:
    """Linear, norm, activation, ...; with the cell's weights, or those of the arm."""
    layers, depth = [], cell.depth
    for fan_in, fan_out in itertools.pairwise([784, *[cell.width] * depth, 10]):
        normed = arm in ("batchnorm", "noise", "walk", "detached", "frozen_100")
        norm = Norm(cell.width, arm) if normed else nn.Identity()
        layers += [nn.Linear(fan_in, fan_out), norm, ACTIVATIONS[cell.activation]()]
        if cell.activation == "sigmoid":
            nn.init.xavier_normal_(layers[-3].weight)
        else:
            nn.init.kaiming_normal_(layers[-3].weight, nonlinearity="relu")
        nn.init.zeros_(layers[-3].bias)
    network = nn.Sequential(*layers[:-2])
    if arm == "centered":  # a tanh network: tanh(z) = 2 (sigmoid(2 z) - 1/2)
        for at, linear in enumerate(network[::3]):
            linear.weight.data *= 2 if at in (0, depth) else 4
        half = nn.Module()
        half.forward = lambda x: x.sigmoid() - 0.5
        for at in range(2, len(network), 3):
            network[at] = half
    if arm == "units":
        x = images[:512]
        with torch.no_grad():
            for at in range(0, 3 * depth, 3):
                deviation, mean = torch.std_mean(network[at](x), 0)
                network[at].weight /= deviation[:, None]
                network[at].bias.copy_(-mean / deviation)
                x = network[at + 2](network[at](x))
    return network


def adam_part(network: nn.Sequential, half: int, rate: float) -> list[torch.optim.Optimizer]:
    """Adam at a hundredth of the rate for the first maps, SGD for the others."""
    maps = list(network[::3])
    parts = [torch.optim.AdamW([p for m in maps[:half] for p in m.parameters()], rate / 100, weight_decay=0)]
    rest = [p for m in maps[half:] for p in m.parameters()]
    return parts + ([torch.optim.SGD(rest, rate, 0.9)] if rest else [])


def train(arm: str, cell: Cell, rate: float, seed: int, *, anew: bool) -> float:
    """Accuracy on test. With `anew` the running statistics are those of 10,000 images without noise."""
    depth, steps, name, momentum = cell.depth, cell.steps, cell.optimizer, 0.9
    torch.manual_seed(seed)
    of_cifar = cell.network == "resnet"
    pool, test = DATA["cifar10" if of_cifar else "mnist"]
    chosen = torch.randperm(len(pool[0]), generator=torch.manual_seed(seed))[: cell.images]
    images, labels = (part[chosen] for part in pool)
    mean, deviation = images.mean((0, 2), keepdim=True), images.std((0, 2), keepdim=True)
    black = (-mean / deviation).view(-1, 1, 1)
    images = ((images - mean) / deviation).flatten(1)
    if cell.network == "mlp":
        network = mlp(arm, cell, images)
    else:
        network = {"cnn": cnn, "resnet": narrow_resnet}[cell.network](arm)
    groups = [
        {"params": [p for p in network.parameters() if (p.ndim == 1) == vector], "weight_decay": decay}
        for vector, decay in ((False, cell.decay), (True, 0.0))
    ]
    half = (depth + 1) // 2
    if arm in ("adam_first", "adam_all"):
        optimizers = adam_part(network, half if arm == "adam_first" else depth + 1, rate)
    else:
        optimizers = [
            torch.optim.SGD(groups, rate, momentum) if name == "sgd" else torch.optim.AdamW(groups, rate)
        ]
    peaks = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    warmup, order, factors = steps // 20, [], None
    for step in range(steps):
        cosine = (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2
        for optimizer, peak in zip(optimizers, peaks, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = peak * ((step + 1) / warmup if step < warmup else cosine)
        order = order if len(order) >= cell.batch else torch.randperm(len(images))
        batch, order = order[: cell.batch], order[cell.batch :]
        network.zero_grad()
        inputs = moved(images[batch], black) if of_cifar else images[batch]
        cross_entropy(network(inputs), labels[batch]).backward()
        if arm in ("first_half", "last_half"):
            maps = list(network[::3])
            lengths = [nn.utils.get_total_norm([p.grad for p in linear.parameters()]) for linear in maps]
            inside = range(half) if arm == "first_half" else range(half, depth + 1)
            factors = factors or [
                float(lengths[-1] / lengths[at]) if at in inside else 1.0 for at in range(depth + 1)
            ]
            for linear, factor in zip(maps, factors, strict=True):
                for parameter in linear.parameters():
                    parameter.grad *= factor
        for optimizer in optimizers:
            optimizer.step()
    with torch.no_grad():
        if anew:  # one batch of 10,000 images, and the last batch is all that counts
            for layer in network.modules():
                if isinstance(layer, Norm):
                    layer.still, layer.momentum = True, 1.0
            network(images[:10000])
        network.eval()
        parts = ((test[0] - mean) / deviation).flatten(1).split(1000)
        right = torch.cat([network(part).argmax(1) for part in parts]) == test[1]
    return right.double().mean().item()


if __name__ == "__main__":
    DATA = {"mnist": (read_mnist("train"), read_mnist("t10k"))}
    if not sys.argv[2:] or {"N7", "N9", "R3"} & {*sys.argv[2:]}:
        DATA["cifar10"] = (read_cifar("train"), read_cifar("test"))
    loops = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for (name, arm), cell in CELLS.items():
        claim, *setting = name.split()
        if sys.argv[2:] and claim not in sys.argv[2:]:
            continue
        kept = best_runs(claim).query(f"arm == '{arm}' and steps == {cell.steps}")
        kept = kept[kept["setting"].isin(setting)] if setting else kept
        if kept.empty:
            print(f"{name} {arm}: passed over, as no run of it is kept")
            continue
        rates = itertools.cycle(kept["lr"])
        anew = claim in ANEW or arm in ("noise", "walk")
        ours = [round(train(arm, cell, next(rates), seed, anew=anew), 4) for seed in SEEDS]
        theirs = kept["accuracy"].tolist()
        agree = min(ours) <= max(theirs) + 0.005 and min(theirs) <= max(ours) + 0.005
        loops[f"{name} {arm}"] = {"rates": kept["lr"].tolist(), "bare": ours, "kept": theirs, "agree": agree}
        print(name, arm, loops[f"{name} {arm}"], flush=True)
        RESULT.write_text(json.dumps(loops, indent=1) + "\n")
    sys.exit(not all(loop["agree"] for loop in loops.values()))
