"""The initialization laboratory in one figure: what depth does to gradients, samples and the residual stream."""

import math
from functools import cache
from pathlib import Path

import torch
from matplotlib.figure import Figure

from normexp.evidence.subjects import network
from normexp.laws.depth import cosine_similarity, gradient_growth, gradient_profile, growth_of
from normexp.laws.stream import stream_norms
from normexp.report.style import OWN

NORMS = {norm: OWN[norm] for norm in ("none", "batchnorm", "layernorm", "rmsnorm", "groupnorm")}
ACTIVATIONS = {"identity": "xavier", "relu": "he", "tanh": "xavier", "sigmoid": "xavier"}
DEPTH, WIDTH, BATCH = 24, 256, 128
BN_RELU = math.pi / (math.pi - 1)  # squared gradient, a layer (Yang et al. 2019)


def draw_laboratory(path: Path) -> None:
    """Write the figure; eight panels, about 50 networks of one seed each."""
    figure = Figure(figsize=(15.6, 7.4), layout="constrained")
    axes = figure.subplots(2, 4)
    for ax, (activation, initialization) in zip(axes[0], ACTIVATIONS.items(), strict=True):
        gradients(ax, activation, initialization)
    axes[0, 0].legend(frameon=False, fontsize=8)
    axes[0, 0].set_ylabel("gradient norm, last layer = 1")
    batch_size(axes[1, 0])
    rank_collapse(axes[1, 1])
    residual_stream(axes[1, 2])
    growth_table(axes[1, 3])
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    figure.suptitle(
        "At initialization: BatchNorm saves sigmoid networks and explodes ReLU networks; LayerNorm does neither",
        fontweight="bold",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def mlp(norm: str, activation: str, depth: int = DEPTH, width: int = WIDTH, seed: int = 0) -> torch.nn.Module:
    options = [f"model.depth={depth}", f"model.width={width}", f"model.activation={activation}"]
    return network(
        (f"norm={norm}", "model=mlp", *options, f"model.initialization={ACTIVATIONS[activation]}"), seed
    )


@cache
def profile_of(norm: str, activation: str) -> torch.Tensor:
    return gradient_profile(mlp(norm, activation), seed=0, batch_size=BATCH)


def gradients(ax, activation: str, initialization: str) -> None:
    layers = torch.arange(1, DEPTH + 1)
    for norm, color in NORMS.items():
        profile = profile_of(norm, activation)
        ax.plot(layers, ((profile - profile[-1]) / 2).exp(), color=color, label=norm, linewidth=1.6)
    rates = {
        "relu": (BN_RELU, "theory: BatchNorm $\\sqrt{\\pi/(\\pi-1)}$ a layer"),
        "sigmoid": (0.0565, "theory: none $\\sqrt{0.0565}$ a layer"),
        "identity": ((BATCH - 2) / (BATCH - 3), "theory: BatchNorm $\\sqrt{(B-2)/(B-3)}$ a layer"),
    }
    if activation in rates:
        rate, label = rates[activation]
        theory = rate ** ((DEPTH - layers) / 2)
        ax.plot(layers, theory, "k--", linewidth=1)
        ax.text(0.97, 0.03, label, transform=ax.transAxes, ha="right", fontsize=8)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, 0.1), max(high, 10))
    name = "linear" if activation == "identity" else activation
    ax.set_title(f"{name} network ({initialization} weights)", fontsize=10)
    ax.set_xlabel("layer", fontsize=8)


def batch_size(ax) -> None:
    sizes = [4, 8, 16, 32, 64, 128]
    for activation, marker in (("relu", "o"), ("identity", "D")):
        rates = [gradient_growth(mlp("batchnorm", activation), seed=0, batch_size=size) for size in sizes]
        name = "linear" if activation == "identity" else activation
        ax.plot(sizes, rates, marker, color=NORMS["batchnorm"], label=name, markersize=5)
    fine = torch.linspace(math.log(4), math.log(128), 100).exp()
    ax.plot(fine, (fine - 2) / (fine - 3), "k--", linewidth=1)
    ax.axhline(BN_RELU, color="k", linestyle=":", linewidth=1)
    ax.text(128, BN_RELU + 0.02, "$\\pi/(\\pi-1)$", ha="right", fontsize=8)
    ax.text(20, 1.09, "$(B-2)/(B-3)$", fontsize=8)
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, sizes)
    ax.set_title("BatchNorm: gradient² growth a layer", fontsize=10)
    ax.set_xlabel("batch size", fontsize=8)
    ax.legend(frameon=False, fontsize=8)


def rank_collapse(ax) -> None:
    depths = [1, 2, 4, 8, 16, 32]
    for norm in ("none", "batchnorm", "layernorm"):
        values = [
            cosine_similarity(mlp(norm, "relu", depth=depth, width=128), seed=0, batch_size=32)
            for depth in depths
        ]
        ax.plot(depths, values, "o-", color=NORMS[norm], label=norm, markersize=4)
    ax.set_xscale("log", base=2)
    ax.set_xticks(depths, depths)
    ax.set_ylim(0, 1.03)
    ax.set_title("rank collapse (ReLU): mean |cosine| of samples", fontsize=10)
    ax.set_xlabel("depth", fontsize=8)


def residual_stream(ax) -> None:
    blocks, shared = (
        12,
        ("model=gpt", "data=python_docs", "norm=layernorm", "model.width=64", "model.mlp_ratio=1"),
    )
    shared = (*shared, f"model.depth={blocks}", "model.activation=relu", "model.initialization=xavier")
    x = torch.arange(blocks + 1)
    for index, position in enumerate(("pre", "post", "sandwich")):
        norms = stream_norms(network((*shared, f"model.norm_position={position}"), 0), seed=0, batch_size=16)
        style = ("-", "--", ":")[index]
        ax.plot(x, norms[::2], style, marker="o", color=NORMS["layernorm"], label=position, markersize=4)
    ax.fill_between(x, 1 + x / 2, 1 + 1.5 * x, color=NORMS["layernorm"], alpha=0.12, linewidth=0)
    ax.axhline(1.5, color="k", linestyle="--", linewidth=1)
    ax.text(0.97, 0.1, "Lemma 2: post 3/2, pre in the band", transform=ax.transAxes, ha="right", fontsize=8)
    ax.set_title("Transformer with LayerNorm: $E|x|^2/d$ of the stream", fontsize=10)
    ax.set_xlabel("block", fontsize=8)
    ax.legend(frameon=False, fontsize=8)


def growth_table(ax) -> None:
    """gradient² growth a layer, for each norm and activation, as numbers."""
    rows = [
        [f"{growth_of(profile_of(norm, activation)):.3g}" for activation in ACTIVATIONS] for norm in NORMS
    ]
    names = ["linear" if name == "identity" else name for name in ACTIVATIONS]
    table = ax.table(rows, rowLabels=list(NORMS), colLabels=names, loc="center", cellLoc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 1.6)
    ax.axis("off")
    ax.set_title("gradient² growth a layer (1 is steady)", fontsize=10)
