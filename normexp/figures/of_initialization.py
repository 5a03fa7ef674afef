"""Figures of networks at their initialization: signals and gradients over depth. Nothing is trained."""

import math
import statistics
from collections.abc import Sequence

from normexp.figures.gallery import Lab, figure, over_layers
from normexp.figures.plot import Line, Map, Panel, Plot

NORMS = ("none", "batchnorm", "layernorm")
BN_RELU = math.pi / (math.pi - 1)  # growth of the squared gradient per layer (Yang et al. 2019)
FALL = "gradient / that of the last layer"


def gradients(lab: Lab, norm: str, overrides: str, *, batch_size: int = 128) -> Line:
    """Norm of the gradient by the output of each hidden linear map, over that at the last: the mean of several seeds,
    with a band from the smallest to the largest."""
    from normexp.claims.laws.depth import gradient_profile

    rows = []
    for seed in range(lab.size(3, 1)):
        network = lab.network(f"norm={norm} model=mlp", overrides, seed=seed)
        squares = gradient_profile(network, seed=seed, batch_size=batch_size)
        rows.append(((squares - squares[-1]) / 2).exp().tolist())
    columns = list(zip(*rows, strict=True))
    mean = [statistics.fmean(values) for values in columns]
    return Line(norm, layer_numbers(mean), mean, list(map(min, columns)), list(map(max, columns)))


def layer_numbers(values: Sequence[float]) -> list[int]:
    """1, 2, ... for a list of layers."""
    return list(range(1, len(values) + 1))


@figure
def vanishing_gradients(lab: Lab) -> Plot:
    """Gradient by layer in a deep MLP of sigmoid or tanh units, for three norms."""
    depth, panels, falls = lab.size(16, 4), [], dict[tuple[str, str], float]()
    for activation in ("sigmoid", "tanh"):
        overrides = f"model.depth={depth} model.width=128 model.initialization=small_gaussian"
        lines = [gradients(lab, norm, f"{overrides} model.activation={activation}") for norm in NORMS]
        falls |= {(activation, line.name): line.y[0] for line in lines}
        panels.append(Panel(f"{activation} units", "layer", FALL, lines, log="y"))
    seen = (
        f"From the last of {depth} layers to the first, the gradient is multiplied by {falls['sigmoid', 'none']:.1g}"
        f" with sigmoid units and no norm, by {falls['sigmoid', 'batchnorm']:.2g} with BatchNorm; with tanh by"
        f" {falls['tanh', 'none']:.2g} and {falls['tanh', 'batchnorm']:.2g} (weights of"
        " standard deviation 0.1)."
    )
    return Plot(panels, seen)


@figure
def mean_field_explosion(lab: Lab) -> Plot:
    """Gradient by layer of a plain ReLU network, with the closed form for BatchNorm."""
    depth, batch = lab.size(40, 8), lab.size(256, 32)
    overrides = f"model.depth={depth} model.width={lab.size(512, 32)}"
    lines = [gradients(lab, norm, overrides, batch_size=batch) for norm in NORMS]
    law = [BN_RELU ** ((depth - layer) / 2) for layer in range(1, depth + 1)]
    inner = lines[1].y[depth // 4 : depth - depth // 4]  # far from input and loss
    growth = (inner[0] / inner[-1]) ** (2 / (len(inner) - 1))
    lines.append(Line("theory", lines[0].x, law, look="law"))
    seen = (
        f"With BatchNorm the squared gradient grows {growth:.3f}-fold per layer toward the input (theory:"
        f" {BN_RELU:.3f}), {lines[1].y[0] ** 2:.1g}-fold over {depth} layers; without a norm"
        f" {lines[0].y[0] ** 2:.2g}-fold."
    )
    return Plot([Panel("", "layer", FALL, lines, log="y")], seen)


@figure
def rank_and_cosine(lab: Lab) -> Plot:
    """Mean cosine between samples, and the effective rank of a batch, after each activation."""
    from normexp.claims.laws.sites import input_batch, observed
    from normexp.monitors.representation import geometry

    depth, batch = lab.size(40, 6), lab.size(64, 8)
    cosines, ranks = [], []
    for norm in NORMS:
        network = lab.network(f"norm={norm} model=mlp model.depth={depth} model.width=128")
        geometries = [geometry(y) for y in observed(network, input_batch(network, 0, batch), "activation")]
        cosine, rank = ([float(row[name]) for row in geometries] for name in ("c_value", "effective_rank"))
        cosines.append(Line(norm, layer_numbers(cosine), cosine))
        ranks.append(Line(norm, layer_numbers(rank), rank))
    seen = (
        f"After {depth} ReLU layers, the mean cosine between two of {batch} random inputs is"
        f" {cosines[0].y[-1]:.3f} without a norm, {cosines[1].y[-1]:.3f} with BatchNorm,"
        f" {cosines[2].y[-1]:.3f} with LayerNorm; the effective rank is {ranks[0].y[-1]:.1f},"
        f" {ranks[1].y[-1]:.1f} and {ranks[2].y[-1]:.1f} of {batch}."
    )
    panels = [
        Panel("cosine between inputs", "layer", "mean cosine of two samples", cosines),
        Panel("rank of a batch", "layer", "effective rank", ranks, log="y"),
    ]
    return Plot(panels, seen)


@figure
def residual_variance(lab: Lab) -> Plot:
    """Variance of a residual network x + W relu(norm(x)) with He weights, and its two closed forms."""
    import torch

    from normexp.claims.evidence.initial import norm_factory

    blocks, width, batch = lab.size(16, 4), lab.size(1024, 64), lab.size(512, 64)
    lines, steps = [], list(range(blocks + 1))
    for norm in NORMS:
        make, generator = norm_factory((f"norm={norm}",)), torch.Generator().manual_seed(0)
        x = torch.randn(batch, width, generator=generator)
        variances = [float(x.var(correction=0))]
        with torch.no_grad():
            for _ in range(blocks):
                weight = torch.randn(width, width, generator=generator) * (2 / width) ** 0.5
                x = x + make(width).train()(x).relu() @ weight.T
                variances.append(float(x.var(correction=0)))
        lines.append(Line(norm, steps, variances, look="points"))
    laws = {"2^l": [2.0**step for step in steps], "1 + l": [1.0 + step for step in steps]}
    lines += [Line(name, steps, values, look="law") for name, values in laws.items()]
    seen = (
        f"After {blocks} blocks the variance is {lines[0].y[-1]:.4g} without a norm (closed form"
        f" {2.0**blocks:.4g}), {lines[1].y[-1]:.3g} with BatchNorm and {lines[2].y[-1]:.3g} with LayerNorm"
        f" (closed form {blocks + 1})."
    )
    return Plot([Panel("", "residual block", "variance of the stream", lines, log="y")], seen)


@figure
def gradient_by_layer(lab: Lab) -> Plot:
    """Gradient norm of the MLP's second map of each block at initialization, Pre-LN against Post-LN."""
    depth, lines = lab.size(12, 2), []
    for placement in ("post", "pre"):
        runs = []
        for seed in range(lab.size(3, 1)):
            runs += lab.train(
                f"model=gpt data=python_docs norm=layernorm model.norm_position={placement} model.depth={depth}",
                "model.width=64 model.initialization=xavier batch_size=16 monitor=[gradients] max_steps=0",
                f"seed={seed} data.train_size=40000",
            )
        lines.append(over_layers(runs, r"gradient_norm/layer\d+_mlp_output", placement))
    ratios = [line.y[-1] / line.y[0] for line in lines]
    seen = (
        f"In a GPT of {depth} blocks the gradient of the last block's map is {ratios[0]:.2g} times that of"
        f" the first with Post-LN, {ratios[1]:.2g} times with Pre-LN; at the last block Post-LN has"
        f" {lines[0].y[-1] / lines[1].y[-1]:.2g} times the gradient of Pre-LN."
    )
    return Plot([Panel("", "block", "gradient norm of W2", lines, log="y")], seen)


@figure
def channel_means(lab: Lab) -> Plot:
    """Mean |channel mean| of each layer while one large gradient step is applied in parts, for two norms."""
    import copy

    import torch

    from normexp.claims.laws.covariate_shift import moved
    from normexp.claims.laws.sites import labelled, observed

    depth, parts, panels, ends = lab.size(20, 4), lab.size(20, 3), [], {}
    for norm in ("none", "batchnorm"):
        network = lab.network(f"norm={norm} model=mlp model.depth={depth} model.width=128 data=digits")
        batch, classes = labelled(network, 0, 256)
        after = moved(network, batch, classes, 1.0, 0)  # one step at learning rate 1
        rows = []
        for part in range(parts + 1):
            between = copy.deepcopy(network)
            with torch.no_grad():
                for p, q in zip(between.parameters(), after.parameters(), strict=True):
                    p.lerp_(q, part / parts)
            outputs = observed(between, batch, "linear")[:-1]
            rows.append([math.log10(float(y.mean(0).abs().mean()) + 1e-12) for y in outputs])
        ends[norm] = rows[0][-1], rows[-1][-1]
        applied = [100 * part / parts for part in range(parts + 1)]
        heat = Map(layer_numbers(rows[0]), applied, rows, "log10 |mean|")
        panels.append(Panel(norm, "layer", "% of the update applied", map=heat))
    seen = (
        "One step at learning rate 1 changes the mean of the last layer's units from"
        f" 10^{ends['none'][0]:.1f} to 10^{ends['none'][1]:.1f} without a norm, from"
        f" 10^{ends['batchnorm'][0]:.1f} to 10^{ends['batchnorm'][1]:.1f} with BatchNorm (a dense ReLU"
        f" network of {depth} layers, before each norm)."
    )
    return Plot(panels, seen)
