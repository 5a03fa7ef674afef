"""A training step of gpt and its presets over that of GPT-2's block, written out bare, in turn in one process."""

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normexp.config.compose import compose
from normexp.config.construct import construct
from normexp.config.run_spec import resolved

from . import Measured, Options

CHARACTERS = 96


class BareBlock(nn.Module):
    """x + attention(LayerNorm(x)), then x + MLP(LayerNorm(x)): Radford et al. 2019, the block of nanoGPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, width = x.shape
        q, k, v = (
            part.view(n, t, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norms[0](x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.mixed(y.transpose(1, 2).reshape(n, t, width))
        return x + self.narrow(F.gelu(self.wide(self.norms[1](x))))


class BareGPT(nn.Module):
    """Token and position tables, blocks, a last LayerNorm, logits."""

    def __init__(self, context: int, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(CHARACTERS, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(BareBlock(width, heads) for _ in range(depth)))
        self.norm, self.logits = nn.LayerNorm(width), nn.Linear(width, CHARACTERS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.logits(self.norm(self.blocks(x)))


def small_gpt() -> BareGPT:  # for `normexp check`
    """nanoGPT's small character model."""
    return BareGPT(256, 6, 384, 6)


def texts() -> tuple[Tensor, Tensor]:
    """32 random texts of 256 characters, and what follows each."""
    made = torch.randint(CHARACTERS, (32, 257))
    return made[:, :-1], made[:, 1:]


def blocks(*overrides: str, options: Options) -> Measured:
    """Milliseconds of forward, backward and a step of AdamW on 64 texts of 64 characters, over the bare block of the
    same depth, width and heads. `parameters` are those of both."""
    torch.set_num_threads(1)
    n, context, size = (2, 8, ["model.width=16"]) if options.quick else (64, 64, [])
    config = resolved(compose(["model=gpt", "data=python_docs", *overrides, *size])[0])
    torch.manual_seed(0)
    model = construct("model", config["model"])((context,), CHARACTERS, construct("norm", config["norm"]))
    bare = BareGPT(context, *(config["model"][key] for key in ("depth", "width", "heads")))
    texts = torch.randint(CHARACTERS, (n, context + 1))
    pairs, steps = [], [step(network, texts) for network in (model, bare)]
    for take_step in steps * 2:  # warm up
        take_step()
    for _ in options.rounds():
        times = [time.perf_counter()]
        for take_step in steps:
            take_step()
            times.append(time.perf_counter())
        pairs.append((1e3 * (times[1] - times[0]), 1e3 * (times[2] - times[1])))
    counts = [sum(p.numel() for p in network.parameters()) for network in (model, bare)]
    return pairs, {"parameters": counts[0], "bare_parameters": counts[1]}


def step(network: nn.Module, texts: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)

    def run() -> None:
        loss = F.cross_entropy(network(texts[:, :-1]).flatten(0, 1), texts[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return run
