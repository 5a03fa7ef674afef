"""Cells of the two questions, trained again by plain PyTorch: `python scripts/research/bare_loops.py DATA [PLAN ...]`.

DATA has a folder mnist and cifar10_jpeg.tar.gz. Nothing of normexp is used; weights, batches and the images left out of
training are drawn anew. So a loop agrees with the kept runs within seeds: if the spans of both over seeds overlap, or
lie less than .3 points of accuracy and a tenth of the ratio apart. Exits 1 if one does not. Writes
docs/data/recount.json.
"""

# mypy: ignore-errors
import copy
import gzip
import itertools
import json
import math
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from kept_runs import runs_of
from PIL import Image
from torch import nn
from torch.nn.functional import cross_entropy, pad

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "docs/data/recount.json"
OF_SEED_0 = ("doubling", "resnet")  # plans whose runs of seed 0 are repeated, too
MLP = {"model.depth": "3", "model.activation": "relu"}  # where a plan leaves it out
CELLS = {  # of each plan
    "shift": "model == 'mlp'",
    "depth": "`model.depth` == '8' and (`model.activation` == 'sigmoid' or optimizer == 'sgd' and "
    "`model.activation` == 'tanh')",
    "batches": "model == 'mlp' and batch_size in ('4', '256') and norm in ('batchnorm', 'layernorm')",
    "learned": "model == 'mlp' and norm in ('none', 'batchnorm') and `norm.affine` != 'none'",
    "warmup": "`model.depth` == '6' and `model.norm_position` == 'post' and lr == 0.001",
    "doubling": "model == 'mlp'",
    "resnet": "steps == 1050 and (norm == 'batchnorm' and lr == 0.03 or norm == 'none' and lr == 0.01)",
}
# In which a plan's cells differ.
NAMED_BY = ["model.activation", "optimizer", "batch_size", "schedule.warmup_steps", "norm", "lr"]
RATIO = "logged/first:gradient_first_last_ratio/weight"
SEEDS, WIDTH = (101, 102, 103), {"learned": 256, "warmup": 48, "resnet": 32}  # 128 elsewhere
DRAWN = {  # of the doubling audit by depth: width, training images, weight decay, initial weights
    "12": (32, 1984, 0.001, nn.init.xavier_normal_),
    "3": (64, 5794, 0.0, nn.init.orthogonal_),
}


class Noisy(nn.BatchNorm1d):
    """BatchNorm, and behind it a new shift and scale of each unit at every step (Santurkar et al. 2018)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if not self.training:
            return y
        shift = torch.empty(1, y.shape[1]).uniform_(-0.5, 0.5) + torch.empty_like(y).uniform_(-0.1, 0.1)
        return y * (torch.empty(1, y.shape[1]).uniform_(1, 1.25) + 0.1 * torch.randn_like(y)) + shift


NORMS = {
    "none": nn.Identity,
    "batchnorm": nn.BatchNorm1d,
    "layernorm": nn.LayerNorm,
    "batchnorm_noisy": Noisy,
}
ACTIVATIONS = {"sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "relu": nn.ReLU}


def read_mnist(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    files = [Path(sys.argv[1], "mnist", f"{name}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
    raw = [np.frombuffer(gzip.decompress(file.read_bytes()), np.uint8) for file in files]
    return torch.tensor(raw[0][16:].reshape(-1, 1, 784)) / 255, torch.tensor(raw[1][8:]).long()


def read_cifar(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    with tarfile.open(Path(sys.argv[1], "cifar10_jpeg.tar.gz")) as archive:
        found = [
            (member.name.split("/")[1], np.array(Image.open(archive.extractfile(member))))
            for member in archive
            if member.name.startswith(name) and member.isfile()
        ]
    classes = sorted({label for label, _ in found})
    images = torch.tensor(np.stack([image for _, image in found])).reshape(-1, 1024, 3).mT
    return images / 255, torch.tensor([classes.index(label) for label, _ in found])


def mlp(run: pd.Series) -> nn.Module:
    drawn = run["bank"] == "doubling"
    width = DRAWN[run["model.depth"]][0] if drawn else WIDTH.get(run["bank"], 128)
    widths, layers = [3072 if drawn else 784, *[width] * int(run["model.depth"]), 10], []
    for fan_in, fan_out in itertools.pairwise(widths):
        layers += [
            nn.Linear(fan_in, fan_out),
            NORMS[run["norm"]](width),
            ACTIVATIONS[run["model.activation"]](),
        ]
    network = nn.Sequential(*layers[:-2])
    for linear in network[::3]:
        start = nn.init.kaiming_normal_ if run["model.activation"] == "relu" else nn.init.xavier_normal_
        (DRAWN[run["model.depth"]][3] if drawn else start)(linear.weight)
        nn.init.zeros_(linear.bias)
    return network


class Transformer(nn.Module):
    """Post-LN over 16 patches, by PyTorch's own layer; a map that holds three is started as three."""

    def __init__(self, run: pd.Series, width: int = WIDTH["warmup"]) -> None:
        super().__init__()
        self.patches, self.logits = nn.Linear(49, width), nn.Linear(width, 10)
        self.places = nn.Parameter(0.02 * torch.randn(16, width))
        block = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, "gelu", batch_first=True)
        self.blocks = nn.ModuleList(copy.deepcopy(block) for _ in range(int(run["model.depth"])))
        for name, weights in self.named_parameters():
            if weights.ndim == 2 and name != "places":
                for part in weights.detach().chunk(3 if "in_proj" in name else 1):
                    nn.init.xavier_normal_(part)
            elif name.endswith("bias"):
                nn.init.zeros_(weights)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = images.view(-1, 4, 7, 4, 7).transpose(2, 3).reshape(-1, 16, 49)
        x = self.patches(x) + self.places
        for block in self.blocks:
            x = block(x)
        return self.logits(x.mean(1))


class Block(nn.Module):
    """Two convolutions, and a shortcut without weights (option A of He et al. 2015)."""

    def __init__(self, norm: Callable[[int], nn.Module], fan_in: int, fan_out: int) -> None:
        super().__init__()
        self.stride, self.added = fan_out // fan_in, fan_out - fan_in
        first, second = nn.Conv2d(fan_in, fan_out, 3, self.stride, 1), nn.Conv2d(fan_out, fan_out, 3, 1, 1)
        self.branch = nn.Sequential(first, norm(fan_out), nn.ReLU(), second, norm(fan_out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.added))
        return (shortcut + self.branch(x)).relu()


def resnet(norm: Callable[[int], nn.Module], width: int) -> nn.Sequential:
    """He's ResNet of 8 layers for CIFAR-10."""
    blocks = [Block(norm, width * before, width * after) for before, after in ((1, 1), (1, 2), (2, 4))]
    stem = [nn.Unflatten(1, (3, 32, 32)), nn.Conv2d(3, width, 3, 1, 1), norm(width), nn.ReLU()]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, 10)]
    network = nn.Sequential(*stem, *blocks, *head)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)
    return network


def moved(images: torch.Tensor, black: torch.Tensor) -> torch.Tensor:
    """Each image shifted by up to 4 pixels both ways over black, and one in two mirrored."""
    whole = pad(images.view(-1, 3, 32, 32) - black, (4, 4, 4, 4)) + black
    cut = [
        image[:, down : down + 32, right : right + 32]
        for image, down, right in zip(whole, *torch.randint(9, (2, len(whole))).tolist(), strict=True)
    ]
    mirrored = torch.rand(len(cut), 1, 1, 1) < 0.5
    return torch.where(mirrored, torch.stack(cut).flip(3), torch.stack(cut)).flatten(1)


def train(run: pd.Series, seed: int, *, of_length_one: bool = False) -> tuple[float, float]:
    """Accuracy on test at the end; before training, the gradient of the first map over that of the last. With
    `of_length_one` each map's gradient keeps its direction alone."""
    torch.manual_seed(seed)
    drawn = run["bank"] == "doubling"
    (pool, labels), test = DATA[run["data"]]
    of_images = run["model"] == "resnet"  # products in bfloat16, and images that move
    if of_images:
        norm = {"none": nn.Identity, "batchnorm": nn.BatchNorm2d}[run["norm"]]
        network = resnet(norm, WIDTH["resnet"])
    else:
        network = {"mlp": mlp, "transformer": Transformer}[run["model"]](run)
    rate, batch_size, sgd = run["lr"], int(run["batch_size"]), run["optimizer"] == "sgd"
    count, decay = 20000 if run["bank"] in ("batches", "warmup") else 55000, 0.0 if sgd else 0.01
    if drawn:
        _, count, decay, _ = DRAWN[run["model.depth"]]
    count = 45000 if of_images else count
    chosen = torch.randperm(len(pool))[:count]  # as many as the kept runs train on
    images, labels = pool[chosen], labels[chosen]
    mean, deviation = images.mean((0, 2), keepdim=True), images.std((0, 2), keepdim=True)
    images, ratio = ((images - mean) / deviation).flatten(1), math.nan
    cross_entropy(network(images[:128]), labels[:128]).backward()
    if run["model"] == "mlp":
        ends = [torch.cat([p.grad.flatten() for p in network[at].parameters()]).norm() for at in (0, -1)]
        ratio = (ends[0] / ends[1]).item()
    decays = ((False, decay), (True, 0.0))  # of weights and of vectors
    groups = [
        {"params": [p for p in network.parameters() if (p.ndim == 1) == n], "weight_decay": w}
        for n, w in decays
    ]
    optimizer = torch.optim.SGD(groups, rate, 0.9) if sgd else torch.optim.AdamW(groups, rate)
    warmup, steps, order = run["schedule.warmup_steps"], int(run["steps"]), []
    warmup = steps // 20 if pd.isna(warmup) else int(warmup)
    for step in range(steps):
        cosine = (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate if drawn else rate * ((step + 1) / warmup if step < warmup else cosine)
        order = order if len(order) >= batch_size else torch.randperm(len(images))
        batch, order = order[:batch_size], order[batch_size:]
        optimizer.zero_grad()
        inputs = moved(images[batch], (-mean / deviation).view(3, 1, 1)) if of_images else images[batch]
        with torch.autocast("cpu", torch.bfloat16, enabled=of_images):
            loss = cross_entropy(network(inputs), labels[batch])
        loss.backward()
        for linear in network[::3] if of_length_one else ():
            gradients = [weights.grad for weights in linear.parameters()]
            torch._foreach_div_(gradients, nn.utils.get_total_norm(gradients))
        optimizer.step()
    network.eval()
    with torch.no_grad():
        parts = ((test[0] - mean) / deviation).flatten(1).split(1000)
        right = torch.cat([network(part).argmax(1) for part in parts]) == test[1]
    return right.double().mean().item(), ratio


if __name__ == "__main__":
    earlier, asked = json.loads(RESULT.read_text()), sys.argv[2:] or [*CELLS]
    DATA = {"mnist": (read_mnist("train"), read_mnist("t10k"))}
    if {"doubling", "resnet"} & {*asked}:
        DATA["cifar10_jpeg"] = (read_cifar("train"), read_cifar("test"))
    loops = earlier["bare loops"]
    kept_runs = runs_of(*asked).query("seed > 0 or bank in @OF_SEED_0")
    kept_runs = kept_runs.where(kept_runs["model"] != "mlp", kept_runs.fillna(MLP))
    runs = [kept_runs.query(f"bank == '{plan}' and ({CELLS[plan]})") for plan in asked]
    groups = [group for table in runs for group in table.groupby(NAMED_BY, dropna=False)]
    for cell, kept in groups:
        name = " ".join([kept["bank"].iloc[0], *(str(word) for word in cell if word == word)])
        theirs = kept[["test_accuracy", RATIO]].dropna(axis=1).to_numpy()
        ours = np.array([train(kept.iloc[0], seed) for seed in SEEDS]).round(6)[:, : theirs.shape[1]]
        apart = [0.003, 0.1 * theirs[:, -1].mean()][: theirs.shape[1]]
        agree = ((ours.min(0) <= theirs.max(0) + apart) & (theirs.min(0) <= ours.max(0) + apart)).all()
        loops[name] = {"bare": ours.tolist(), "kept": theirs.tolist(), "agree": bool(agree)}
        print(name, ours.mean(0), "kept:", *[of(0) for of in (theirs.mean, theirs.min, theirs.max)], agree)
    if "depth" in asked:
        # Is it the length of the gradients that stops SGD? Directions stay; the first seed chose the rate out of four.
        run = kept_runs.query("setting == '8-sigmoid-sgd' and norm == 'none'").iloc[0]
        at = {rate: pd.Series(dict(run) | {"lr": rate}) for rate in (0.01, 0.03, 0.1, 0.3)}
        best = max(at, key=lambda rate: train(at[rate], SEEDS[0], of_length_one=True)[0])
        ours = [round(train(at[best], seed, of_length_one=True)[0], 4) for seed in (102, 103, 104)]
        print("gradients of length one at", best, ours)
        earlier["gradients of length one"] = {"lr": best, "test accuracy": ours}
    RESULT.write_text(json.dumps(earlier | {"bare loops": loops}) + "\n")
    sys.exit(not all(loop["agree"] for loop in loops.values()))
