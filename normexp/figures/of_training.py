"""Figures of BatchNorm in training: what enters a unit, batch sizes, rates, noise, and the error in each mode."""

import math

from normexp.figures.gallery import Lab, figure, over_steps, recorded, trained
from normexp.figures.plot import Line, Panel, Plot

PLAIN = "recipe=plain optimizer=sgd schedule=constant data=digits"


@figure
def bn_percentiles(lab: Lab) -> Plot:
    """Accuracy, and the 15th, 50th and 85th percentile of the last sigmoid's input, without and with BatchNorm."""
    steps, curves, panels, drift = lab.size(600, 12), [], [], {}
    for norm in ("none", "batchnorm"):
        runs = lab.train(
            f"norm={norm} model=mlp model.depth=3 model.width=100 model.activation=sigmoid",
            f"model.initialization=small_gaussian {PLAIN} lr=0.5 batch_size=60 max_steps={steps}",
            f"monitor=[activations] monitor.activations.every_n_steps={lab.size(10, 4)}",
            f"val_every_n_steps={lab.size(20, 6)}",
        )
        curves.append(over_steps(runs, "val/accuracy", norm, 100))
        low, mid, high = (over_steps(runs, f"preactivation_p{p}/layer02", norm) for p in (15, 50, 85))
        band = Line(norm, mid.x, mid.y, low.y, high.y)
        panels.append(Panel(norm, "step", "input of the last sigmoid", [band], named=False))
        drift[norm] = max(mid.y) - min(mid.y)
    seen = (
        f"After {steps} steps {curves[1].y[-1]:.1f}% of the validation digits are right with BatchNorm,"
        f" {curves[0].y[-1]:.1f}% without; the median input of the last sigmoid moves within"
        f" {drift['batchnorm']:.2f} with it, within {drift['none']:.2f} without."
    )
    first = Panel("accuracy", "step", "validation accuracy (%)", curves)
    return Plot([first, *panels], seen)


@figure
def gn_batch_size(lab: Lab) -> Plot:
    """Test error of a small MLP over the batch size, at one rate of AdamW."""
    sizes, lines = ((2, 4, 8, 16, 32), []) if not lab.small else ((4, 16), [])
    for norm in ("batchnorm", "groupnorm"):
        points = []
        for size in sizes:
            runs = lab.train(
                f"norm={norm} model=mlp model.width=128 data=digits batch_size={size} lr=0.003",
                f"max_epochs={lab.size(6, 1)} monitor=none",
                f"data.train_size={lab.size(500, 100)}",
                seeds=lab.size(3, 1),
            )
            errors = [100 * (1 - run.summary["metrics"]["test/accuracy"]) for run in runs]
            points.append((sum(errors) / len(errors), min(errors), max(errors)))
        mean, low, high = zip(*points, strict=True)
        lines.append(Line(norm, sizes, mean, low, high, look="points"))
    few, many = lines[0].y[0] - lines[1].y[0], lines[0].y[-1] - lines[1].y[-1]
    seen = (
        f"BatchNorm's error minus GroupNorm's is {few:+.1f} points at batch size {sizes[0]} and {many:+.1f}"
        f" at {sizes[-1]} (an MLP on digits: a unit of a batch of 2 has two values, where the"
        " paper's channels have thousands; equal epochs and rates, band: all seeds). This network was chosen to show"
        " the effect: a small CNN on digits with SGD at rates proportional to the batch size did not, BatchNorm erred"
        " less there at 2 and at 32."
    )
    return Plot([Panel("", "batch size", "test error (%)", lines, log="x")], seen)


@figure
def rates(lab: Lab) -> Plot:
    """Validation accuracy over training at four learning rates, and at the end over the rate."""
    tried = [0.001, 0.01, 0.1, 1.0] if not lab.small else [0.01, 1.0]
    panels, ends, best = [], [], {}
    for norm in ("none", "batchnorm"):
        runs = lab.train(
            f"norm={norm} model=cnn model.depth=[2,2,2] model.width=8 {PLAIN}",
            f"max_epochs={lab.size(8, 1)} batch_size=64 monitor=none",
            rates=tried,
        )
        by_rate = zip(tried, runs, strict=True)
        curves = [over_steps([run], "val/accuracy", f"rate {rate:g}", 100) for rate, run in by_rate]
        panels.append(Panel(norm, "step", "validation accuracy (%)", curves))
        final = [curve.y[-1] for curve in curves]
        ends.append(Line(norm, tried, final, look="points"))
        best[norm] = max(zip(final, tried, strict=True))
    bests = "; ".join(f"{norm}: best {value:.1f}% at rate {rate:g}" for norm, (value, rate) in best.items())
    seen = (
        f"{bests}. At rate {tried[-1]:g}: {ends[0].y[-1]:.1f}% without, {ends[1].y[-1]:.1f}% with BatchNorm."
    )
    last = Panel("at the end", "learning rate", "validation accuracy (%)", ends, log="x")
    return Plot([*panels, last], seen)


@figure
def noisy_batchnorm(lab: Lab) -> Plot:
    """Training accuracy without a norm, with BatchNorm, and with BatchNorm followed by noise."""
    lines = []
    for norm in ("none", "batchnorm", "batchnorm_noisy"):
        runs = lab.train(
            f"norm={norm} model=cnn model.depth=[2,2] model.width=8 {PLAIN} lr=0.03 batch_size=64",
            f"monitor=none max_epochs={lab.size(10, 2)}",
            seeds=lab.size(3, 1),
        )
        lines.append(over_steps(runs, "train/accuracy", norm, 100))
    at = len(lines[0].y) // 3
    seen = (
        f"At step {lines[0].x[at]} the training accuracy is {lines[0].y[at]:.1f}% without a norm,"
        f" {lines[1].y[at]:.1f}% with BatchNorm and {lines[2].y[at]:.1f}% with noisy BatchNorm; at the end"
        f" {lines[0].y[-1]:.1f}%, {lines[1].y[-1]:.1f}% and {lines[2].y[-1]:.1f}%."
    )
    return Plot([Panel("", "step", "training accuracy (%)", lines)], seen)


def error(network, x, y, *, batch_size: int | None = None) -> float:
    """Error in % in eval mode; with a batch size, each such batch is normalized by its own statistics."""
    import torch

    network.train(batch_size is not None)
    size = batch_size or len(x)
    whole = len(x) - len(x) % size
    batches = zip(x[:whole].split(size), y[:whole].split(size), strict=True)
    buffers = {name: value.clone() for name, value in network.named_buffers()}
    with torch.no_grad():
        right = [(network(inputs).argmax(1) == classes).float() for inputs, classes in batches]
        for name, value in network.named_buffers():
            value.copy_(buffers[name])
    return 100 * (1 - float(torch.cat(right).mean()))


@figure
def train_eval_precise(lab: Lab) -> Plot:
    """Validation error over training by average and precise statistics, and four errors at the end by batch size."""
    from normexp.norms.batch_norm import recompute_population_statistics

    cnn = f"model=cnn model.depth=[1,1] model.width=8 {PLAIN}"
    sizes = (2, 4, 8, 32, 128) if not lab.small else (4, 16)
    names = ("train, batch", "val, batch", "val, average", "val, precise")
    errors = []  # a row for each batch size
    for size in sizes:
        (run,) = lab.train(
            f"norm=batchnorm {cnn} batch_size={size} lr={0.2 * size / 32:g} max_epochs={lab.size(6, 1)}",
            f"monitor=none data.train_size={lab.size(1000, 64)}",
        )
        parts = trained(run)
        parts.data.load()
        network = parts.module.model
        train, val = (next(iter(parts.data.evaluation_loader(split))) for split in ("train", "val"))
        with_batch = [error(network, *part, batch_size=size) for part in (train, val)]
        with_average = error(network, *val)
        recompute_population_statistics(network, [train[0]])
        errors.append((*with_batch, with_average, error(network, *val)))
    curves = []
    for norm, name in (("batchnorm", names[2]), ("batchnorm_precise", names[3])):
        runs = lab.train(
            f"norm={norm} {cnn} batch_size=256 lr=1 max_steps={lab.size(60, 8)} val_every_n_steps=2 monitor=none"
        )
        rows = recorded(runs, "val/accuracy")
        curves.append(Line(name, [int(s) for s in rows["step"]], [100 * (1 - v) for v in rows["value"]]))
    columns = zip(names, zip(*errors, strict=True), strict=True)
    lines = [Line(name, sizes, values, look="points") for name, values in columns]
    few, many = errors[0], errors[-1]
    worst = [max(curve.y[len(curve.y) // 3 :]) for curve in curves]
    seen = (
        f"At batch size {sizes[0]} the validation error is {few[1]:.1f}% with batch statistics,"
        f" {few[2]:.1f}% with the moving average, {few[3]:.1f}% with precise ones; at {sizes[-1]}:"
        f" {many[1]:.1f}%, {many[2]:.1f}%, {many[3]:.1f}%."
        f" In the last two thirds of training at rate 1 the largest error is {worst[0]:.1f}% by the average,"
        f" {worst[1]:.1f}% by precise statistics."
    )
    panels = [
        Panel("over training, batch size 256", "step", "validation error (%)", curves),
        Panel("at the end", "batch size", "error (%)", lines, log="x"),
    ]
    return Plot(panels, seen)


@figure
def updates_and_saturation(lab: Lab) -> Plot:
    """log10 of |update| / |weights| of each layer over training, and where tanh outputs lie after it."""
    import torch

    from normexp.claims.laws.sites import observed

    depth, panels, shares = lab.size(5, 2), [], {}
    for norm in ("none", "batchnorm"):
        (run,) = lab.train(
            f"norm={norm} model=mlp model.depth={depth} model.width=100 model.activation=tanh",
            f"model.initialization=small_gaussian {PLAIN} lr=0.1 batch_size=32 max_steps={lab.size(300, 8)}",
            f"monitor=[gradients] monitor.gradients.every_n_steps={lab.size(5, 2)}",
        )
        lines = []
        for layer in range(depth):
            line = over_steps([run], rf"update_ratio/layer{layer:02d}", f"layer {layer + 1}")
            lines.append(Line(line.name, line.x, [math.log10(y) if y > 0 else math.nan for y in line.y]))
        lines.append(Line("10^-3", [0, lines[0].x[-1]], [-3.0, -3.0], look="law"))
        panels.append(Panel(f"updates, {norm}", "step", "log10 |update| / |weights|", lines))
        parts = trained(run)
        outputs = observed(parts.module.model, parts.data.probe_batch(256)[0], "activation")
        shares[norm] = 100 * float(torch.stack(outputs).abs().gt(0.97).float().mean())
        histograms = []
        for layer, y in enumerate(outputs):
            density, edges = torch.histogram(y.flatten(), bins=40, range=(-1.0, 1.0), density=True)
            centers = (edges[1:] + edges[:-1]) / 2
            histograms.append(Line(f"layer {layer + 1}", centers.tolist(), density.tolist()))
        panels.append(Panel(f"tanh outputs, {norm}", "output", "density", histograms))
    seen = (
        f"After training, {shares['none']:.1f}% of tanh outputs lie beyond 0.97 without a norm,"
        f" {shares['batchnorm']:.1f}% with BatchNorm (weights of standard deviation 0.1); the last updates of"
        f" the first layer are 10^{panels[0].lines[0].y[-1]:.1f} and 10^{panels[2].lines[0].y[-1]:.1f} of its"
        " weights."
    )
    return Plot([panels[0], panels[2], panels[1], panels[3]], seen, columns=2)
