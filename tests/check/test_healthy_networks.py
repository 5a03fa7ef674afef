"""No false alarms on noise, on public networks and on this project's."""

import random

import pytest
import torch
from committed import ROOT
from small_networks import HandRMS, Own, around, found, rows
from torch import nn
from torch.nn import functional as F

from normexp.check.run import check
from normexp.config.run_spec import specs
from normexp.training.build import build

TIMM = ("resnet10t", "lcnet_050", "convnext_atto")
OWN = [
    (model, norm)
    for model in ("mlp", "cnn", "resnet", "transformer", "gpt")
    for norm in ("layernorm", "batchnorm")
]


def public_network(name):
    if name == "vit":
        vit = pytest.importorskip("torchvision").models.VisionTransformer
        return vit(32, 8, 2, 4, 64, 128, num_classes=10)
    return pytest.importorskip("timm").create_model(name, num_classes=10)


def own_network(model, norm):
    """One of this project's, and noise in the form of its batches."""
    text = ["data=text_file", f"data.path='{ROOT / 'README.md'}'"] if model == "gpt" else ["data=digits"]
    (spec,) = specs([f"model={model}", f"norm={norm}", *text, "batch_size=16", "trainer=cpu"])
    parts = build(spec)
    parts.data.setup("fit")
    x, y = next(iter(parts.data.train_dataloader()))
    return parts.module.model, (torch.randn_like(x) if x.is_floating_point() else x[torch.randperm(16)], y)


@pytest.mark.parametrize("name", [*TIMM, "vit", *OWN[:-1]], ids=str)  # batchnorm shows gpt the future
@pytest.mark.filterwarnings("ignore")  # of the libraries
def test_fresh_network_has_no_warning(name):
    batch = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    network, batch = own_network(*name) if name in OWN else (public_network(name), batch)
    result = check(network, [batch, batch], precision="bf16-mixed", devices=1)
    # An error of torch's own, where ATEN_CPU_CAPABILITY hides the AVX-512 of a processor with AMX.
    if "pack_vnni2" in str(result):
        pytest.skip("torch's attention cannot compute in bfloat16 here")
    assert result.ok, str(result)
    assert len(result.healthy) >= 10


def cell(still):
    """A recurrent cell, whose state starts at 0; `still` keeps it there."""

    def forward(net, x):
        h = torch.zeros(len(x), 8)
        for _ in range(4):
            h = (net.inputs(x) + net.norm(net.states(h * (not still)))).tanh()
        return h

    net = Own(forward, inputs=nn.Linear(6, 8), states=nn.Linear(8, 8), norm=nn.LayerNorm(8))
    nn.init.zeros_(net.states.bias)
    return net, rows(), {}


class AboveOne(HandRMS):
    """The gain is what is above 1, as in Gemma."""

    def __init__(self, width):
        super().__init__(width, wide=True)
        nn.init.uniform_(self.weight, -0.5, 0.5)

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (1 + self.weight)


class Domains(nn.Module):
    """A norm for each domain, one domain a batch; or one of the first `drawn` norms at random."""

    def __init__(self, domains, drawn):
        super().__init__()
        self.drawn, self.linear = drawn, nn.Linear(6, 8)
        self.norms = nn.ModuleList(nn.BatchNorm1d(8) for _ in range(domains))

    def forward(self, x, domain):
        return self.norms[random.randrange(self.drawn) if self.drawn else int(domain[0])](self.linear(x))


def forces(norm):
    """Energies, and their gradients, which the network takes itself."""

    def forward(net, x):
        energy = net.net(x.requires_grad_()).squeeze(-1)
        return energy, torch.autograd.grad(energy.sum(), x, create_graph=True)[0]

    data = torch.randn(8, 6), (torch.randn(8), torch.randn(8, 6))
    loss = {"loss": lambda y, t: F.mse_loss(y[0], t[0]) + F.mse_loss(y[1], t[1])}
    return Own(forward, net=around(norm, classes=1)), data, loss


def decayed(norm):
    net = around(norm)
    return net, rows(), {"optimizer": torch.optim.AdamW(net.parameters(), weight_decay=0.1)}


def domains(count, drawn=0):
    return Domains(count, drawn), [(rows()[0], torch.full((32,), i % 2), rows()[1]) for i in range(6)], {}


# finding -> a network of which it has nothing to say, and one beside it that has the fault
SIDE_BY_SIDE = {
    "constant_channels": cell,
    "decay_on_norms": lambda faulty: decayed(HandRMS(8, wide=True) if faulty else AboveOne(8)),
    "nothing_learns": lambda faulty: domains(3 if faulty else 2),
    "nothing_learns, drawn": lambda faulty: domains(3, drawn=2 if faulty else 3),
    "batch_in_eval": lambda faulty: forces(
        nn.BatchNorm1d(8, track_running_stats=False) if faulty else nn.LayerNorm(8)
    ),
}


@pytest.mark.parametrize("case", SIDE_BY_SIDE)
def test_only_the_network_with_the_fault_is_named(case):
    healthy, faulty = (SIDE_BY_SIDE[case](fault) for fault in (False, True))
    results = [check(net, data, **options) for net, data, options in (healthy, faulty)]
    finding = found(case.partition(",")[0], *results)
    assert list(results[1]) == results[1].findings
    assert finding.layers in {("norm",), ("1.weight",), ("norms.2",), ("net.1",)}
