"""Figures of trained transformers: what norms do to values, outliers, sinks, rates and the use of depth."""

import math

from normexp.figures.gallery import Lab, figure, over_layers, trained
from normexp.figures.plot import Line, Panel, Plot

GPT = "norm=layernorm model=gpt data=python_docs batch_size=16"


@figure
def dyt_clouds(lab: Lab) -> Plot:
    """Output over input of three LayerNorms of a trained transformer, before gain and shift."""
    import torch

    from normexp.claims.laws.sites import modules_of

    depth = lab.size(8, 2)
    (run,) = lab.train(
        f"norm=layernorm model=transformer model.depth={depth} model.width=64 data=digits monitor=none",
        f"max_epochs={lab.size(12, 1)} batch_size=64 lr=0.002",
    )
    parts = trained(run)
    norms, pairs = modules_of(parts.module.model, "norm"), []
    for norm in norms:
        norm.register_forward_hook(lambda module, inputs, output: pairs.append((inputs[0], output)))
    with torch.no_grad():
        parts.module.model.eval()(parts.data.probe_batch(128)[0])
    panels, shares = [], []
    for index in (0, len(norms) // 2, len(norms) - 1):
        norm, (x, y) = norms[index], pairs[index]
        plain = ((y - norm.bias) / norm.weight).detach().flatten()
        drawn = torch.randperm(len(plain), generator=torch.Generator().manual_seed(0))[: lab.size(1500, 60)]
        xs, ys = x.flatten()[drawn], plain[drawn]
        keep = ys.isfinite()
        xs, ys = xs[keep].double(), ys[keep].double()
        slope, tanh = (xs @ ys) / (xs @ xs), best_tanh(xs, ys)
        left = [float((ys - fit).square().sum() / ys.square().sum()) for fit in (slope * xs, tanh(xs))]
        shares.append(f"norm {index + 1}: {100 * left[0]:.1f}% and {100 * left[1]:.1f}%")
        grid = torch.linspace(float(xs.min()), float(xs.max()), 60, dtype=xs.dtype)
        cloud = Line("layernorm", xs.tolist(), ys.tolist(), look="dots")
        fit = Line("best tanh", grid.tolist(), tanh(grid).tolist(), look="law")
        title = f"norm {index + 1} of {len(norms)}"
        panels.append(Panel(title, "input", "output before gain", [cloud, fit], named=False))
    seen = (
        "Square of the output that the best line and the best scaled tanh (dashed) leave over:"
        f" {'; '.join(shares)}. A small image transformer on digits."
    )
    return Plot(panels, seen)


def best_tanh(x, y):
    """The function c tanh(a x) with the least squared error, found over a grid of a."""
    import torch

    best = (math.inf, 0.0, 0.0)
    for a in torch.logspace(-2, 1, 60, dtype=x.dtype) / x.std():
        t = (a * x).tanh()
        c = (t @ y) / (t @ t)
        best = min(best, (float((y - c * t).square().sum()), float(a), float(c)))
    return lambda values: best[2] * (best[1] * values).tanh()


@figure
def massive_activations(lab: Lab) -> Plot:
    """Largest value over the median, and attention on the first token, by block, before and after training."""
    (run,) = lab.train(
        f"{GPT} data.context_length=64 model.depth={lab.size(6, 2)} model.width=64 monitor=[stream]",
        f"max_steps={lab.size(500, 4)} monitor.stream.every_n_steps=1000000 monitor.stream.batch_size=32",
    )
    outliers, sinks = [], []
    for last, name in ((False, "at the start"), (True, "trained")):
        outliers.append(over_layers([run], r"outlier_ratio/layer\d+_mlp", name, last=last))
        sinks.append(over_layers([run], r"attention_on_first/layer\d+_attention", name, last=last))
    length = run.summary["config"]["data"]["context_length"]
    even = sum(1 / seen for seen in range(2, length + 1)) / (length - 1)
    sinks.append(Line("all alike", [1, len(sinks[0].x)], [even, even], look="law"))
    top, most = max(outliers[1].y), max(sinks[1].y)
    none = "a model this small and short shows no massive activations"
    seen = (
        f"After {run.summary['config']['max_steps']} steps the largest value of the stream is at most"
        f" {top:.0f} times the median ({max(outliers[0].y):.0f} at the start), and attention on the first"
        f" token reaches {100 * most:.0f}% ({100 * even:.0f}% if it looked at all alike);"
        f" {none if top < 1000 else 'as in the papers'}."
    )
    panels = [
        Panel("outliers", "block", "largest / median |value|", outliers, log="y"),
        Panel("attention on token 0", "block", "mean weight", sinks),
    ]
    return Plot(panels, seen)


@figure
def qk_norm_rates(lab: Lab) -> Plot:
    """Validation loss at the end over the learning rate, with and without QK-norm."""
    tried = [0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3] if not lab.small else [0.001, 0.1]
    lines = []
    for qk, name in (("false", "without"), ("true", "with QK-norm")):
        runs = lab.train(
            f"{GPT} monitor=none data.context_length=64 model.qk_norm={qk} model.depth=2 model.width=64",
            f"max_steps={lab.size(200, 4)} val_every_n_steps=100000",
            rates=tried,
        )
        values = [run.summary["metrics"]["val/loss"] for run in runs]
        lines.append(Line(name, tried, [math.nan if v is None else v for v in values], look="points"))
    best = [min(y for y in line.y if y == y) for line in lines]
    at = tried[-2]
    seen = (
        f"The best loss is {best[0]:.2f} without and {best[1]:.2f} with QK-norm; at rate {at:g} it is"
        f" {lines[0].y[-2]:.2f} and {lines[1].y[-2]:.2f}, at {tried[-1]:g} {lines[0].y[-1]:.2f} and"
        f" {lines[1].y[-1]:.2f} (a GPT of 2 blocks, {lab.size(200, 4)} steps, one seed)."
    )
    return Plot([Panel("", "learning rate", "validation loss (nats)", lines, log="x")], seen)


@figure
def dead_depth(lab: Lab) -> Plot:
    """How much the loss rises when one block is left out, for three placements."""
    arms = {"pre": "", "post": "model.norm_position=post", "scaled": "model.depth_scaling=true"}
    lines, halves = [], {}
    for name, options in arms.items():
        (run,) = lab.train(
            f"{GPT} model.depth={lab.size(10, 4)} model.width=48 {options} monitor=[stream] lr=0.002",
            f"max_steps={lab.size(300, 4)} monitor.stream.every_n_steps=1000000 monitor.stream.batch_size=64",
            "val_every_n_steps=100000",
        )
        line = over_layers([run], r"left_out_loss/layer\d+", name)
        lines.append(line)
        half = len(line.y) // 2
        loss = run.summary["metrics"]["val/loss"]
        halves[name] = sum(line.y[half:]) / half, sum(line.y[:half]) / half, loss
    rises = "; ".join(
        f"{name} {deep:+.3f} against {early:+.3f} (loss {loss:.2f})"
        for name, (deep, early, loss) in halves.items()
    )
    seen = (
        "Mean rise of the loss without one block of the deeper half against one of the first half, in nats:"
        f" {rises}. So short a training teaches the first blocks alone; a loss near 3 has learned little more than"
        " how frequent each character is."
    )
    return Plot([Panel("", "block left out", "rise of the loss (nats)", lines)], seen)
