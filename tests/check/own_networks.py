"""Networks, data and functions that a user may have: `own` of conftest.py puts them down as `own_net.py`."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.norm: nn.Module = nn.BatchNorm1d(6)

    def forward(self, x):
        return self.norm(self.linear(x))


class OwnNorm(nn.LayerNorm):
    pass


class Blocks(nn.Sequential):
    def __init__(self):
        super().__init__(Block(), Block(), nn.Linear(6, 3))


class Eps(nn.Sequential):
    def __init__(self):
        super().__init__(Block(), nn.Linear(6, 6), OwnNorm(6, eps=100.0), nn.Linear(6, 3))


class Healthy(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


class Dropped(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm = nn.Linear(6, 5), nn.BatchNorm1d(5)

    def forward(self, x):
        return self.norm(self.a(x).transpose(1, 2)).mean(2)


def bare():
    return nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6))


def boom():
    raise RuntimeError("boom\nand more")


def batch(samples=4):
    return torch.randn(samples, 6), torch.randint(0, 3, (samples,))


def held_out():
    return batch(9)


def shuffled():
    data = torch.utils.data.TensorDataset(*batch(64))
    return torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)


def padded():
    x = torch.randn(8, 10, 6) + 3
    x[:, 4:] = 0
    return x


def real(batch):
    return batch[..., 0] != 0


def loss(output, target):
    return output.square().mean()


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), 1e-3)
