"""Trainings that are odd in many ways, for tests that an instrument changes and ends none of them."""

import random
from collections import deque

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

SIZE, WIDTH = 6, 8


class Graphs:
    """A batch of a class of its own."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __iter__(self):
        raise TypeError("not iterable")


class Pair(nn.ReLU):
    """An activation that takes and gives more than a tensor."""

    def forward(self, x, more):
        return super().forward(x), more


class Noisy(nn.ReLU):
    """An activation of a user that draws numbers and counts its calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x + 0.1 * torch.randn_like(x) * self.calls)


def offloaded(function, x):
    with torch.autograd.graph.save_on_cpu():
        return function(x)


def nested(function, x):
    return checkpoint(lambda q: checkpoint(function, q, use_reentrant=False), x, use_reentrant=False)


RECOMPUTED = {
    "a reentrant checkpoint": lambda function, x: checkpoint(function, x, use_reentrant=True),
    "a checkpoint": lambda function, x: checkpoint(function, x, use_reentrant=False),
    "nested checkpoints": nested,
    "offloaded": offloaded,
}


class Odd(pl.LightningModule):
    """A small network. Each oddity is a word of `odd`."""

    def __init__(self, odd):
        super().__init__()
        torch.manual_seed(0)
        self.odd = odd
        kinds = {"batch": nn.BatchNorm1d, "group": lambda n: nn.GroupNorm(2, n), "rms": nn.RMSNorm}
        norm = next((make for kind, make in kinds.items() if kind in odd), nn.LayerNorm)
        self.inner = nn.Sequential(nn.Linear(SIZE, WIDTH), norm(WIDTH), nn.ReLU(inplace="in place" in odd))
        self.pair, self.head = Pair(), nn.Linear(WIDTH, 3)
        self.q, self.kv = nn.Linear(WIDTH, 16), nn.Linear(WIDTH, 8)
        if "draws" in odd:
            self.inner = nn.Sequential(*self.inner[:2], nn.RReLU(), Noisy())
        self.words = nn.Embedding(
            5, WIDTH, sparse="sparse" in odd, max_norm=1.0 if "max norm" in odd else None
        )
        self.carried, self.count = None, 0
        self.unheld = [nn.LayerNorm(WIDTH)]
        self.average, self.codes = (
            nn.Linear(WIDTH, 3).requires_grad_(False),
            nn.Parameter(torch.randn(4, WIDTH)),
        )
        self.bank, self.named, self.last = (
            [torch.zeros(SIZE)],
            {"x": {"mean": torch.zeros(SIZE)}},
            deque(maxlen=2),
        )
        self.generators = torch.Generator().manual_seed(0), [np.random.default_rng(0), random.Random(0)]
        self.teacher = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True).eval().requires_grad_(False)
        if "manual" in odd:
            self.automatic_optimization = False

    def block(self, x):
        x = self.inner(x)
        if {"functional", *RECOMPUTED} & self.odd:
            x = F.dropout(F.layer_norm(x, x.shape[-1:]).tanh(), 0.2, self.training)
        return self.unheld[0](x) if "unheld" in self.odd else x

    def forward(self, x):
        run = next((run for word, run in RECOMPUTED.items() if word in self.odd), None)
        x = self.block(x) if run is None else run(self.block, x.clone().requires_grad_())
        if "grouped queries" in self.odd:
            heads = [p(x).view(-1, 2, n, 4).transpose(1, 2) for p, n in ((self.q, 4), (self.kv, 2))]
            out = F.scaled_dot_product_attention(
                query=heads[0], key=heads[1], value=heads[1], enable_gqa=True
            )
            x = x + out.mean((1, 2, 3)).repeat_interleave(2)[:, None]
        if "pair" in self.odd:
            x, _ = self.pair(x, None)
        if "words" in self.odd or "sparse" in self.odd or "max norm" in self.odd:
            x = x + self.words(torch.arange(len(x), device=x.device) % 5)
        return x

    def moved(self, x):
        """The batch after what a step does with a state that no buffer holds."""
        if "bank" in self.odd:
            kept = [self.bank[0], self.named["x"]["mean"], *self.last]
            for mean in kept:
                mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.last.append(x.mean(0))
            x = x - sum(kept)
        if "own generators" in self.odd:
            own, (of_numpy, of_python) = self.generators
            x = x + torch.randn(x.shape, generator=own) + of_numpy.normal() + of_python.random()
        if "shrinks" in self.odd:
            self.inner[0].weight.data.mul_(0.999)
            self.head.weight.data = self.head.weight.data * 0.999
        if "backward" in self.odd:
            (0.01 * self.inner[0].weight.square().sum()).backward()
        return x

    def averaged(self, hidden):
        """What a moving average of the head, and a codebook, add: the step writes into both."""
        for old, new in zip(self.average.parameters(), self.head.parameters(), strict=True):
            if "average in place" in self.odd:
                old.data.mul_(0.9).add_(new.data, alpha=0.1)
            elif "average anew" in self.odd:
                old.data = 0.9 * old.data + 0.1 * new.data
        if "codebook" in self.odd:
            nearest = torch.cdist(hidden.detach(), self.codes.data).argmin(1)
            for code in nearest.unique():
                self.codes.data[code].mul_(0.9).add_(hidden.detach()[nearest == code].mean(0), alpha=0.1)
            hidden = hidden + self.codes[nearest]
        return hidden + self.average(hidden).mean(1, keepdim=True)

    def training_step(self, batch, batch_idx):
        self.count += 1
        if "skips" in self.odd and batch_idx % 3 == 1:
            return None
        x, y = (batch.x, batch.y) if isinstance(batch, Graphs) else batch
        if "writes into the batch" in self.odd:
            x += torch.randn_like(x)
        x = self.moved(x)
        if "other size" in self.odd:  # carries a state of the batch's size
            if self.carried is None:
                self.carried = torch.zeros(len(x), WIDTH)
            hidden = self(x) + 0.1 * self.carried
            self.carried = hidden.detach()
        else:
            hidden = self(x)
        if {"average in place", "average anew", "codebook"} & self.odd:
            hidden = self.averaged(hidden)
        if "gradients" in self.odd:
            (slope,) = torch.autograd.grad(self.head(hidden).sum(), self.inner[0].weight, create_graph=True)
            hidden = hidden + slope.square().mean()
        if "teacher" in self.odd:
            with torch.no_grad():
                hidden = hidden + self.teacher(hidden.detach()[:, None])[:, 0]
        if "schedule" in self.odd:
            self.lr_schedulers().step()
        if "once" in self.odd and self.count > 2 and not torch.is_grad_enabled():
            self.head.weight.zero_()
            raise RuntimeError("odd pass")
        loss = F.cross_entropy(self.head(hidden), y)
        if "second order" in self.odd:  # this loss has no second derivative
            one = torch.ones(len(x), dtype=torch.long)
            logits = self.head(hidden).log_softmax(-1)[None]
            loss = loss + F.ctc_loss(logits, y.clamp_min(1)[:, None], one, one)
        self.log("loss", loss)
        if "manual" in self.odd:
            self.manual_backward(loss)
            self.optimizers().step()
            self.optimizers().zero_grad()
            return None
        return {"loss": loss, "other": "text"} if "dictionary" in self.odd else loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        if "schedule" in self.odd:
            rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
            return {"optimizer": optimizer, "lr_scheduler": rates}
        return optimizer

    def validation_step(self, batch, batch_idx):
        pass


ODDITIES = (
    "draws", "grouped queries", "second order", "pair", "words", "sparse", "max norm", "skips",
    "writes into the batch", "other size", "gradients", "teacher", "schedule", "once", "manual", "dictionary",
    "own batch", "unheld", "functional", "in place", "one generator", "no validation", "batch", "group",
    "rms",
)  # fmt: skip
STATES = (
    "bank", "own generators", "shrinks", "backward", "average in place", "average anew", "codebook",
    *RECOMPUTED,
)  # fmt: skip


def loaders(odd):
    """Training and validation, of another batch size."""
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(24, SIZE, generator=generator), torch.randint(3, (24,), generator=generator)
    kind = Graphs if "own batch" in odd else lambda x, y: (x, y)

    def collate(pairs):
        return kind(*(torch.stack(part) for part in zip(*pairs, strict=True)))

    data, own = list(zip(x, y, strict=True)), torch.Generator().manual_seed(4)
    training = DataLoader(data, 4, shuffle=True, collate_fn=collate, generator=own)
    shared = own if "one generator" in odd else None
    validation = DataLoader(data[:6], 6, collate_fn=collate, generator=shared)
    return training, None if "no validation" in odd else validation


def drawn(seed):
    """A set of up to five oddities."""
    return frozenset(random.Random(seed).sample(ODDITIES, random.Random(seed).randint(1, 5)))


def trained(odd, callbacks):
    """The weights after seven steps, over two epochs, with what else the training decides."""
    module = Odd(odd)
    training, validation = loaders(odd)
    torch.manual_seed(1)
    trainer = pl.Trainer(
        max_steps=7, max_epochs=-1, callbacks=list(callbacks), logger=False, accelerator="cpu", num_sanity_val_steps=0,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(module, training, validation)
    state = {name: value.clone() for name, value in module.state_dict().items()}
    rates = torch.tensor([group["lr"] for group in trainer.optimizers[0].param_groups])
    return state | {"count": torch.tensor(module.count), "random": torch.rand(3), "rates": rates}
