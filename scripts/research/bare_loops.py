"""Two cells of each of the two questions, trained again by plain PyTorch: `python scripts/research/bare_loops.py DATA`.

DATA has a folder mnist. Nothing of normexp is used; weights, batches and validation images are drawn anew. So a loop
agrees with the kept runs within seeds: if the spans of both over seeds overlap, or lie less than .3 points of accuracy
and a tenth of the ratio apart. Exits 1 if one does not. Writes docs/data/recount.json.
"""

# mypy: ignore-errors
import gzip
import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "docs/data/recount.json"
KEPT = pd.read_parquet(ROOT / "docs/data/two_questions.parquet").query("model == 'mlp' and seed > 0")
CELLS = "activation != 'relu' and (plan == 'shift' or depth == '8' and optimizer == 'sgd')"
RATIO = "gradient_first_last_ratio/weight@first"
SEEDS, WIDTH, BATCH = (101, 102, 103), 128, 128


class Noisy(nn.BatchNorm1d):
    """BatchNorm, and behind it a new shift and scale of each unit at every step (Santurkar et al. 2018)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        if not self.training:
            return y
        shift = torch.empty(1, WIDTH).uniform_(-0.5, 0.5) + torch.empty_like(y).uniform_(-0.1, 0.1)
        return y * (torch.empty(1, WIDTH).uniform_(1, 1.25) + 0.1 * torch.randn_like(y)) + shift


NORMS = {
    "none": nn.Identity,
    "batchnorm": nn.BatchNorm1d,
    "layernorm": nn.LayerNorm,
    "batchnorm_noisy": Noisy,
}
ACTIVATIONS = {"sigmoid": nn.Sigmoid, "tanh": nn.Tanh}


def read_split(name: str) -> list[torch.Tensor]:
    files = [Path(sys.argv[1], "mnist", f"{name}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
    raw = [np.frombuffer(gzip.decompress(file.read_bytes()), np.uint8) for file in files]
    return [torch.tensor(raw[0][16:].reshape(-1, 784)) / 255, torch.tensor(raw[1][8:]).long()]


def train(run: pd.Series, seed: int) -> tuple[float, float]:
    """Accuracy on test at the end; before training, the gradient of the first map over that of the last."""
    torch.manual_seed(seed)
    widths, layers, rate = [784, *[WIDTH] * int(run["depth"]), 10], [], run["lr"]
    for fan_in, fan_out in itertools.pairwise(widths):
        layers += [nn.Linear(fan_in, fan_out), NORMS[run["norm"]](WIDTH), ACTIVATIONS[run["activation"]]()]
    network = nn.Sequential(*layers[:-2])
    for linear in network[::3]:
        nn.init.xavier_normal_(linear.weight)
        nn.init.zeros_(linear.bias)
    chosen = torch.randperm(60000)[5000:]  # as many as the kept runs train on
    images, labels = TRAIN[0][chosen], TRAIN[1][chosen]
    mean, deviation = images.mean(), images.std()
    images = (images - mean) / deviation
    cross_entropy(network(images[:BATCH]), labels[:BATCH]).backward()
    first, last = [torch.cat([p.grad.flatten() for p in network[at].parameters()]).norm() for at in (0, -1)]
    decays = ((2, 0.01), (1, 0.0))  # AdamW's, of matrices and of vectors
    groups = [
        {"params": [p for p in network.parameters() if p.ndim == n], "weight_decay": w} for n, w in decays
    ]
    sgd = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)
    optimizer = sgd if run["optimizer"] == "sgd" else torch.optim.AdamW(groups, lr=rate)
    warmup, steps, order = run["steps"] // 20, run["steps"], []
    for step in range(steps):
        cosine = (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2
        for group in optimizer.param_groups:
            group["lr"] = rate * ((step + 1) / warmup if step < warmup else cosine)
        order = order if len(order) >= BATCH else torch.randperm(len(images))
        batch, order = order[:BATCH], order[BATCH:]
        optimizer.zero_grad()
        cross_entropy(network(images[batch]), labels[batch]).backward()
        optimizer.step()
    right = network.eval()((TEST[0] - mean) / deviation).argmax(1) == TEST[1]
    return right.double().mean().item(), (first / last).item()


if __name__ == "__main__":
    TRAIN, TEST = read_split("train"), read_split("t10k")
    loops = {}
    for names, kept in KEPT.query(CELLS).groupby(["plan", "activation", "norm"]):
        theirs = kept[["test_accuracy", RATIO]].dropna(axis=1).to_numpy()
        ours = np.array([train(kept.iloc[0], seed) for seed in SEEDS]).round(6)[:, : theirs.shape[1]]
        apart = [0.003, 0.1 * theirs[:, -1].mean()][: theirs.shape[1]]
        agree = ((ours.min(0) <= theirs.max(0) + apart) & (theirs.min(0) <= ours.max(0) + apart)).all()
        loops[" ".join(names)] = {"bare": ours.tolist(), "kept": theirs.tolist(), "agree": bool(agree)}
        print(*names, ours.mean(0), "kept:", *[of(0) for of in (theirs.mean, theirs.min, theirs.max)], agree)
    earlier = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    RESULT.write_text(json.dumps(earlier | {"bare loops": loops}) + "\n")
    sys.exit(not all(loop["agree"] for loop in loops.values()))
