"""Figures of the loss around the weights: how smooth it is, and how sharp it becomes."""

from statistics import fmean, median_high

from normexp.figures.gallery import Lab, figure, recorded
from normexp.figures.of_training import PLAIN
from normexp.figures.plot import Line, Panel, Plot


@figure
def landscape(lab: Lab) -> Plot:
    """Ranges of the loss and of the gradient's change along the gradient, and the effective beta, over training."""
    tables = {}
    for norm in ("none", "batchnorm"):
        runs = lab.train(
            f"norm={norm} model=cnn model.depth=[2,2] model.width=8 {PLAIN} lr=0.1 batch_size=64",
            f"monitor=[smoothness] max_steps={lab.size(160, 6)}",
            f"monitor.smoothness.every_n_steps={lab.size(4, 2)}",
        )
        tables[norm] = recorded(runs, r".*/network").pivot(index="step", columns="metric", values="value")
    panels = []
    for name, title, ylabel in (
        ("landscape_loss", "loss along the gradient", "loss"),
        ("gradient_predictiveness", "change of the gradient", "|g - g'|"),
    ):
        lines = []
        for norm, table in tables.items():
            low, high = (table[f"{name}_{end}/network"].tolist() for end in ("min", "max"))
            mid = [(a * b) ** 0.5 for a, b in zip(low, high, strict=True)]
            lines.append(Line(norm, table.index.tolist(), mid, low, high))
        panels.append(Panel(title, "step", ylabel, lines, log="y"))
    betas = [Line(norm, t.index.tolist(), t["effective_beta/network"].tolist()) for norm, t in tables.items()]
    panels.append(Panel("effective smoothness", "step", "effective beta", betas, log="y"))
    medians = [median_high(line.y) for line in betas]
    wide = [
        sum(h > 2 * lo for lo, h in zip(line.low or (), line.high or (), strict=True)) / len(line.y)
        for line in panels[0].lines
    ]
    seen = (
        f"The median effective beta is {medians[0]:.3g} without a norm and {medians[1]:.3g} with"
        " BatchNorm; the loss changes by more than a factor of two along the gradient at"
        f" {100 * wide[0]:.0f}% and {100 * wide[1]:.0f}% of the steps (a CNN on digits)."
    )
    return Plot(panels, seen)


@figure
def edge_of_stability(lab: Lab) -> Plot:
    """Training loss and largest Hessian eigenvalue under full-batch gradient descent at three rates, with 2 / eta."""
    import torch
    from torch.nn import functional

    from normexp.monitors.loss_landscape import hessian_product, lanczos

    rates = (0.03, 0.05, 0.1) if not lab.small else (0.02,)
    steps, every = lab.size(2000, 6), lab.size(25, 3)
    overrides = "norm=none model=mlp model.depth=2 model.width=64 model.activation=tanh"
    losses, sharpness, laws, last = [], [], [], {}
    for rate in rates:
        network = lab.network(overrides, "model.initialization=xavier data=digits")
        x, y = (part[: lab.size(250, 32)] for part in network.examples or ())
        target = functional.one_hot(y, 10).float()
        parameters = list(network.parameters())
        generator = torch.Generator().manual_seed(0)
        start = torch.randn(sum(p.numel() for p in parameters), generator=generator)
        records: list[tuple[int, float, float]] = []
        for step in range(steps + 1):
            loss = torch.square(network(x) - target).sum(1).mean() / 2
            if step % every == 0:
                top = float(lanczos(hessian_product(loss, parameters), start, 12)[-1])
                records.append((step, float(loss.detach()), top))
            gradients = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for p, g in zip(parameters, gradients, strict=True):
                    p.sub_(rate * g)
        at, values, tops = map(list, zip(*records, strict=True))
        losses.append(Line(f"rate {rate:g}", at, values))
        sharpness.append(Line(f"rate {rate:g}", at, tops))
        laws.append(Line(f"2 / {rate:g}", [0, steps], [2 / rate, 2 / rate], look="law"))
        last[rate] = fmean(tops[-max(1, len(tops) // 4) :])
    means = ", ".join(f"{last[rate]:.1f} at rate {rate:g} (2 / rate: {2 / rate:.3g})" for rate in rates)
    seen = (
        f"In the last quarter of {steps} steps the mean sharpness is {means}: a tanh MLP, squared error,"
        f" {len(x)} digits."
    )
    panels = [
        Panel("training loss", "step", "squared error", losses, log="y"),
        Panel("sharpness", "step", "largest eigenvalue", [*sharpness, *laws]),
    ]
    return Plot(panels, seen)
