"""The initialization laboratory in one figure: how depth changes gradients, samples and the residual stream."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from normexp.claims.evidence.initial import network
from normexp.claims.laws.depth import cosine_similarity, gradient_growth, gradient_profile, growth_of
from normexp.claims.laws.network import Network
from normexp.claims.laws.stream import stream_norms
from normexp.report.style import DASHES, INK, OWN, SETTINGS, plain_log_scale

# Matplotlib's options of a curve. Dashed, so that a curve shows through the gaps of another that lies on it.
LINES: dict[str, dict[str, Any]] = {
    "none": {"color": OWN["none"]},
    "batchnorm": {"color": OWN["batchnorm"]},
    "groupnorm": {"color": OWN["groupnorm"], "linewidth": 2.6, "alpha": 0.7},
    "layernorm": {"color": OWN["layernorm"], "linestyle": DASHES[1]},
    "rmsnorm": {"color": OWN["rmsnorm"], "linestyle": DASHES[2]},
}
THEORY: dict[str, Any] = {"color": INK, "linestyle": (0, (6, 3)), "linewidth": 0.9}
ACTIVATIONS = {"identity": "xavier", "relu": "he", "tanh": "xavier", "sigmoid": "xavier"}
NAMES = {"identity": "linear", "relu": "ReLU", "tanh": "tanh", "sigmoid": "sigmoid"}
DEPTH, WIDTH, BATCH = 24, 256, 128
BEFORE, AFTER = "pre_activation", "post_activation"
BN_RELU = math.pi / (math.pi - 1)  # growth of the squared gradient per layer (Yang et al. 2019)
BN_LINEAR = (BATCH - 2) / (BATCH - 3)
SIGMOID = 0.0565  # for Xavier's weights: width times variance of a weight times mean squared slope


def draw_laboratory(path: Path) -> None:
    """Write the figure: eight panels, about 50 networks of one seed each."""
    with matplotlib.rc_context({**SETTINGS, "text.parse_math": True}):  # all texts are ours
        figure = Figure(figsize=(13.2, 6.6), layout="constrained")
        top, bottom = figure.subplots(2, 4)
        gradients(top[0], "identity", "Linear: nothing happens")
        gradients(top[1], "relu", "ReLU: BatchNorm explodes", BN_RELU, r"$\sqrt{\pi/(\pi-1)}$ a layer")
        gradients(top[2], "tanh", "tanh: every norm explodes a little")
        gradients(top[3], "sigmoid", "Sigmoid: only BatchNorm's last", SIGMOID, "$\\sqrt{0.0565}$ a layer")
        top[0].set_ylabel("gradient norm (last layer = 1)")
        growth(bottom[0])
        batch_size(bottom[1])
        rank_collapse(bottom[2])
        residual_stream(bottom[3])
        keys = [Line2D([], [], **line, label=norm) for norm, line in LINES.items()]
        keys.append(Line2D([], [], **THEORY, label="closed form"))
        figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), frameon=False, fontsize=10)
        figure.suptitle(
            "Before the first step, with the norm before the activation: BatchNorm keeps the gradients of deep sigmoid "
            "networks\nand explodes those of deep ReLU networks; the norms of single samples do neither "
            "(MLPs of width 256, one seed)",
            fontweight="bold", fontsize=12,
        )  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)


def mlp(
    norm: str, activation: str, depth: int = DEPTH, width: int = WIDTH, position: str = BEFORE
) -> Network:
    """A network at initialization, with the usual initialization for its activation."""
    words = f"norm={norm} model=mlp model.depth={depth} model.width={width} model.activation={activation}"
    words = f"{words} model.norm_position={position} model.initialization={ACTIVATIONS[activation]}"
    return network(tuple(words.split()), seed=0)


@cache
def profile_of(norm: str, activation: str) -> torch.Tensor:
    """Gradient norm of each layer of such a network, on one batch."""
    return gradient_profile(mlp(norm, activation), seed=0, batch_size=BATCH)


def gradients(ax, activation: str, title: str, rate: float | None = None, label: str = "") -> None:
    """Gradient norms over depth. `rate` is the closed form of the squared gradient's growth per layer."""
    layers = torch.arange(1, DEPTH + 1)
    for norm, line in LINES.items():
        profile = profile_of(norm, activation)
        ax.plot(layers, ((profile - profile[-1]) / 2).exp(), **line)
    if rate:
        theory = rate ** ((DEPTH - layers) / 2)
        ax.plot(layers, theory, **THEORY)
        ax.annotate(label, (layers[13], theory[13]), (10, -2), textcoords="offset points")
    plain_log_scale(ax)
    if activation != "sigmoid":  # the same scale, so that slopes can be compared
        ax.set_ylim(0.1, 150)
        ax.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    else:
        ax.set_yticks([1e-15, 1e-10, 1e-5, 1], ["$10^{-15}$", "$10^{-10}$", "$10^{-5}$", "1"])
    ax.set(title=title, xlabel=f"layer, of {DEPTH} ({ACTIVATIONS[activation].capitalize()}'s weights)")


def growth(ax) -> None:
    """The slopes of the first row as factors, with the closed forms."""
    for index, activation in enumerate(ACTIVATIONS):
        for place, (norm, line) in enumerate(LINES.items()):
            factor = growth_of(profile_of(norm, activation))
            ax.plot(index + (place - 2) * 0.13, factor, "o", color=line["color"], markersize=5.5)
    for index, rate in ((0, BN_LINEAR), (1, BN_RELU), (3, SIGMOID)):
        ax.plot([index - 0.36, index + 0.36], [rate, rate], **THEORY)
    plain_log_scale(ax)
    ax.axhline(1, color=OWN["none"], linewidth=0.7)
    ax.text(-0.4, 0.88, "1 is steady", va="top", color=OWN["none"])
    ax.set_xticks(range(len(NAMES)), NAMES.values())
    ax.grid(axis="x", visible=False)
    ax.set(title="The slopes above, in numbers", ylabel="factor of the squared gradient, a layer")


def batch_size(ax) -> None:
    """Growth of the gradient per layer under BatchNorm, over the batch size, with the theory."""
    sizes = [4, 8, 16, 32, 64, 128]
    for activation, marker in (("relu", "o"), ("identity", "D")):
        rates = [gradient_growth(mlp("batchnorm", activation), seed=0, batch_size=size) for size in sizes]
        ax.plot(sizes, rates, marker, color=OWN["batchnorm"], markersize=5)
        ax.annotate(
            NAMES[activation], (sizes[1], rates[1]), (7, 3), textcoords="offset points",
            color=OWN["batchnorm"], fontweight="bold",
        )  # fmt: skip
    fine = torch.linspace(math.log(4), math.log(128), 100).exp()
    ax.plot(fine, (fine - 2) / (fine - 3), **THEORY)
    ax.plot([4, 128], [BN_RELU, BN_RELU], **THEORY)
    ax.text(128, BN_RELU - 0.03, r"$\pi/(\pi-1)$ in large batches", ha="right", va="top")
    ax.text(20, 1.11, "$(B-2)/(B-3)$")
    ax.set_xscale("log", base=2)
    ax.set_xticks(sizes, sizes)
    ax.set(title="Small batches explode faster", xlabel="batch size")


def rank_collapse(ax) -> None:
    """Similarity of two samples over depth, under three norms in both places."""
    depths = [1, 2, 4, 8, 16, 32]
    for position, filled in ((BEFORE, True), (AFTER, False)):
        for norm in ("none", "batchnorm", "layernorm") if filled else ("batchnorm", "layernorm"):
            networks = [mlp(norm, "relu", depth, 128, position) for depth in depths]
            values = [cosine_similarity(made, seed=0, batch_size=32) for made in networks]
            face = LINES[norm]["color"] if filled else "white"
            ax.plot(depths, values, **LINES[norm], marker="o", markerfacecolor=face)
    key = "filled: norm before ReLU\nhollow: norm after ReLU"
    ax.text(0.97, 0.42, key, transform=ax.transAxes, ha="right")
    ax.set_xscale("log", base=2)
    ax.set_xticks(depths, depths)
    ax.set(ylim=(0, 1.03), xlabel="depth", ylabel="mean |cosine| of two samples")
    ax.set_title("ReLU: where the norm stands decides")


def residual_stream(ax) -> None:
    """Norm of the residual stream over blocks, for each place of LayerNorm."""
    blocks = 12
    words = f"model=gpt norm=layernorm model.width=64 model.mlp_ratio=1 model.depth={blocks}"
    words = f"{words} model.activation=relu model.initialization=xavier model.norm_position="
    x = torch.arange(blocks + 1)
    ax.fill_between(x, 1 + x / 2, 1 + 1.5 * x, color=OWN["layernorm"], alpha=0.12, linewidth=0)
    for position, dash in (("pre", "-"), ("post", DASHES[1]), ("sandwich", DASHES[2])):
        norms = stream_norms(network(tuple(f"{words}{position}".split()), 0), seed=0, batch_size=16)
        ax.plot(x, norms[::2], linestyle=dash, marker="o", color=OWN["layernorm"])
        ax.annotate(
            position, (x[-1], norms[-1]), (6, 0), textcoords="offset points", va="center",
            color=OWN["layernorm"], fontweight="bold", annotation_clip=False,
        )  # fmt: skip
    ax.plot(x, 0 * x + 1.5, **THEORY)
    ax.text(0.3, 20.5, "Lemma 2: post at 3/2,\npre within the band", fontsize=8)
    ax.set_title("Transformer: pre-norm's stream grows")
    ax.set(xlabel="block (LayerNorm)", ylabel="$E|x|^2 / d$ of the residual stream")
