"""More faults of public threads: who holds the norm, over what it runs, masks, leaks, precision and neighbors."""

import torch
from faults import (
    FAULTS,
    HandNorm,
    Own,
    Seq,
    StdNorm,
    cnn,
    fault,
    images,
    mlp,
    replaced,
    rows,
    sequence,
    tokens,
)
from torch import nn

__all__ = ["FAULTS"]

# --- who holds the norm


def held(names: dict) -> None:
    """The norm as a layer of the network, called in its forward."""
    model = names["model"]
    model.norm = nn.BatchNorm1d(8)
    model.run = lambda s, x: s.out(torch.tanh(s.norm(s.first(x))))


@fault("pytorch/pytorch#46818", "not_held", "self:BatchNorm1d", held)
def _():
    "BatchNorm is made anew in forward, so that eval() does not reach it."
    return (
        Own(
            lambda s, x: s.out(torch.tanh(nn.BatchNorm1d(8)(s.first(x)))),
            first=nn.Linear(6, 8, bias=False),
            out=nn.Linear(8, 2),
        ),
        rows(),
        {},
    )


# --- axes and values


@fault("pytorch/pytorch#108956", "one_value", "norm")
def _():
    "LayerNorm(1) gives its shift whatever arrives."
    rest = Seq(nn.Linear(6, 8), nn.LayerNorm(8))
    return (
        Own(
            lambda s, x: s.out(torch.cat([s.rest(x), s.norm(x[:, :1])], 1)),
            rest=rest,
            norm=nn.LayerNorm(1),
            out=nn.Linear(9, 2),
        ),
        rows(),
        {},
    )


@fault("pytorch/pytorch#11991", "wrong_axis", "1")
def _():
    "InstanceNorm1d on rows (N, C) takes samples for channels."
    return mlp(nn.InstanceNorm1d(8)), rows(), {}


@fault(
    "ruotianluo/self-critical.pytorch#44",
    "wrong_axis",
    "norm",
    replaced(norm=lambda: Turned(nn.BatchNorm1d(8))),
)
def _():
    "BatchNorm1d on (N, T, C), sized T to please the error."
    model = Own(
        lambda s, x: s.out(torch.relu(s.norm(s.first(x))).mean(1)),
        first=nn.Linear(6, 8),
        norm=nn.BatchNorm1d(12),
        out=nn.Linear(8, 2),
    )
    return model, (torch.randn(32, 12, 6), torch.randint(0, 2, (32,))), {}


class Turned(Seq):
    """A norm that gets the last axis as its channels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self[0](x.transpose(1, -1)).transpose(1, -1)


@fault("reczoo/FuxiCTR#23", "wrong_axis", "norm", replaced(norm=lambda: nn.LayerNorm(8)))
def _():
    "LayerNorm over (fields, C), where the paper has one for each field."
    model = Own(
        lambda s, x: s.out(s.norm(s.embedding(x)).flatten(1)),
        embedding=nn.Embedding(50, 8),
        norm=nn.LayerNorm([6, 8]),
        out=nn.Linear(48, 2),
    )
    return model, (torch.randint(0, 50, (32, 6)), torch.randint(0, 2, (32,))), {}


# --- tokens


@fault("pytorch/pytorch#25910", "padding_counted", "norm")
def _():
    "Zeros fill up short sentences and enter BatchNorm."
    t = tokens(padded=True)
    return sequence(nn.BatchNorm1d(8), 0), (t, t), {}


@fault("microsoft/Graphormer#87", "padding_counted", "norm")
def _():
    "Dense graphs: rows of nodes that do not exist enter BatchNorm."
    model = Own(
        lambda s, x: s.out(s.norm(s.first(x).flatten(0, 1)).view(*x.shape[:2], 8).mean(1)),
        first=nn.Linear(6, 8, bias=False),
        norm=nn.BatchNorm1d(8),
        out=nn.Linear(8, 2),
    )
    mask = torch.arange(12) < torch.randint(3, 13, (16, 1))
    x = (torch.randn(16, 12, 6) + 2) * mask[..., None]
    return model, (x, torch.randint(0, 2, (16,))), {"mask": mask}


@fault("pytorch/pytorch#81985", "padding_counted", "norm")
def _():
    "GroupNorm over filled-up sequences: an output depends on how much was filled up."
    t = tokens(padded=True)
    return sequence(nn.GroupNorm(2, 8), 0), (t, t), {}


@fault("espnet/espnet#5900", "sees_future", "norm")
def _():
    "causal=True, and GroupNorm over all frames."
    t = tokens()
    return sequence(nn.GroupNorm(1, 8), before=nn.Linear(8, 8)), (t, t), {}


# --- numbers


@fault("pytorch/pytorch#133085", "overflow", "1", lambda names: setattr(names["model"][1], "wide", True))
def _():
    "RMSNorm squares in float16: 300 squared is beyond its end."
    model = Seq(nn.Linear(6, 8), HandNorm(8), nn.Linear(8, 2))
    model[0].weight.data *= 1e3
    return model, rows(), {"precision": "16-true"}


@fault("huggingface/transformers#9295", "overflow", "2")
def _():
    "T5: values near the end of float16 arrive at the norm."
    model = Seq(nn.Linear(6, 8), nn.ReLU(), nn.RMSNorm(8), nn.Linear(8, 2))
    model[0].weight.data *= 3e4
    return model, rows(), {"precision": "16-mixed"}


@fault("pyg-team/pytorch_geometric#2917", "not_finite", "norm")
def _():
    "x / (sqrt(var) + eps): the gradient at a row of equal numbers is no number."
    return (
        Own(
            lambda s, x: s.out(s.norm(s.first(x) * (torch.arange(len(x)) > 0)[:, None])),
            first=nn.Linear(6, 8),
            norm=StdNorm(8),
            out=nn.Linear(8, 2),
        ),
        rows(),
        {},
    )


@fault("r9y9/tacotron_pytorch#19", "eps", "1")
def _():
    "eps=.001 of another library, where quiet sound has a variance below it."
    model = mlp(nn.LayerNorm(8, eps=1e-3))
    return model, (rows()[0] * 0.02, rows()[1]), {}


@fault("huggingface/transformers#30236", "types", "norm")
def _():
    "A gain of float32 in a network of bfloat16: what leaves is float32."
    model = Own(
        lambda s, x: s.out(s.norm(s.first(x)).to(torch.bfloat16)),
        first=nn.Linear(6, 8),
        norm=HandNorm(8, wide=True),
        out=nn.Linear(8, 2),
    ).bfloat16()
    model.norm.float()
    return model, (rows()[0].bfloat16(), rows()[1]), {}


# --- neighbors


@fault("milesial/Pytorch-UNet#325", "bias_cancelled", "0")
def _():
    "The bias of a convolution before BatchNorm."
    return cnn(nn.BatchNorm2d(8), bias=True), images(), {}


@fault("Helsinki-NLP/mammoth#3", "norm_of_norm", "2")
def _():
    "Two layer stacks, each with a norm at both ends."
    return Seq(nn.Linear(6, 8), nn.LayerNorm(8), nn.LayerNorm(8), nn.Linear(8, 2)), rows(), {}


@fault("google/objax#94", "fixed_output", "1")
def _():
    "Gain and shift were swapped when they were made: the norm gives 1."
    model = mlp(nn.LayerNorm(8))
    model[1].weight.data.zero_(), model[1].bias.data.fill_(1.0)
    return model, rows(), {}


@fault("allenai/OLMo#222", "mode_gap", "norm")
def _():
    "One norm stands before the attention and before the MLP."
    parts = {"first": nn.Linear(6, 8), "norm": nn.LayerNorm(8), "up": nn.Linear(8, 8)}
    return (
        Own(lambda s, x: s.out(s.norm(s.up(s.norm(s.first(x))) + s.first(x))), **parts, out=nn.Linear(8, 2)),
        rows(),
        {},
    )
