"""Draw the figures of docs/studies/two_questions, and write what `normexp advise` says of networks that have learned.

    python scripts/research/two_questions.py

It also prints the numbers of docs/tables.md, docs/accuracy.md and docs/batch_size.md.
"""

import itertools
import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from kept_runs import judging_runs, right_answers, runs_of
from matplotlib.axes import Axes

from normexp.claims.evidence.rates import tuned_runs
from normexp.claims.evidence.table import EVIDENCE, runs_in
from normexp.claims.judge.comparison import practical_margin
from normexp.claims.spec.cell import label
from normexp.report.statistics import Estimate, estimate
from normexp.report.style import FREE, OWN

ROOT = Path(__file__).parents[2]
IMAGES, LEARNED = ROOT / "docs" / "images", ROOT / "normexp" / "advise" / "learned.json"
NAMES = {
    "none": "no norm",
    "batchnorm": "BatchNorm",
    "layernorm": "LayerNorm",
    "groupnorm": "GroupNorm",
}
WIDTHS = {"none": 3.4, "batchnorm": 2.4, "layernorm": 1.6, "groupnorm": 1.0}  # so that equal lines all show
NARROW = 5.6  # inches of a figure, so that its letters can be read on a telephone
SHIFT = "logged/middle:wasserstein_drift/*"
RATIO = "logged/first:gradient_first_last_ratio/weight"


def covariate_shift() -> None:
    """The shift of each norm, and what its networks learned."""
    # Noise is left out: its running statistics were collected with it, and are not those of the network in eval mode.
    runs = judging_runs("shift", "resnet").query("norm in ('none', 'batchnorm')")
    of_models = runs["model"].map({"cnn": "CNN, ReLU", "resnet": "ResNet"})
    runs = runs.assign(kind=of_models.fillna("MLP, " + runs["model.activation"]))
    on_mnist = ["MLP, sigmoid", "MLP, tanh", "CNN, ReLU"]
    figure, axes = plt.subplot_mosaic(
        [["shift"] * 2, ["MNIST", "CIFAR-10"]],
        figsize=(NARROW, 5),
        layout="constrained",
        gridspec_kw={"width_ratios": [3.4, 1.2]},
    )
    text = "shift of layers' inputs halfway,\nin standard deviations"
    shown = {
        "shift": (SHIFT, 1, text, [*on_mnist, "ResNet"]),
        "MNIST": ("test_accuracy", 100, "test accuracy on MNIST, %", on_mnist),
        "CIFAR-10": ("test_accuracy", 100, "on CIFAR-10, %", ["ResNet"]),
    }
    for where, (column, scale, text, kinds) in shown.items():
        panel = axes[where]
        for index, kind in enumerate(kinds):
            for offset, norm in ((-0.5, "none"), (0.5, "batchnorm")):
                values = scale * runs[(runs["kind"] == kind) & (runs["norm"] == norm)][column]
                x, name = index + 0.25 * offset, NAMES[norm] if index == 0 else None
                panel.plot([x] * len(values), values, "o", color=OWN[norm], alpha=0.6, markersize=5)
                ends = [x - 0.09, x + 0.09]
                panel.plot(ends, [values.mean()] * 2, color=OWN[norm], linewidth=2.5, label=name)
        # Below each other where names are long, so that they fit a telephone.
        panel.set_xticks(range(len(kinds)), [kind.replace(", ", ",\n") for kind in kinds])
        panel.set_ylabel(text)
        finish(panel)
    axes["shift"].set_ylim(bottom=0)
    axes["shift"].legend(frameon=False)
    save(figure, "covariate_shift")
    columns = [SHIFT, "logged/middle:ics_cosine/*", "logged/middle:effective_beta/*", "test_accuracy"]
    print(
        runs.groupby(["kind", "norm"])[[*columns, "train_loss", "lr"]]
        .agg(["mean", "std"])
        .round(4)
        .to_string()
    )
    compare(runs, ["kind"], [])


def vanishing_gradients() -> None:
    """The gradient at the first layer over that at the last, and what the networks learned, over depth."""
    runs = judging_runs("depth").astype({"model.depth": int}).rename(columns={"model.depth": "depth"})
    of_optimizers = runs["optimizer"].map({"sgd": ", SGD", "adamw": ", AdamW"})
    runs["kind"] = runs["model.activation"].replace("relu", "ReLU") + of_optimizers
    kinds = ("sigmoid, SGD", "sigmoid, AdamW", "tanh, SGD", "ReLU, SGD")
    figure, axes = plt.subplots(4, 2, figsize=(NARROW, 6.2), layout="constrained", sharex=True, sharey="col")
    for (gradient, accuracy), kind in zip(axes, kinds, strict=True):
        for norm in ("none", "batchnorm", "layernorm"):
            rows = runs[(runs["kind"] == kind) & (runs["norm"] == norm)].groupby("depth")
            look = {"color": OWN[norm], "linewidth": WIDTHS[norm]}
            dots = {"color": OWN[norm], "alpha": 0.6, "markersize": 5.5, "markeredgewidth": 0}
            ratio = rows[RATIO].mean().clip(lower=1e-20)
            gradient.plot(ratio.index, ratio, "o-", markersize=4.5, **look)
            accuracy.plot(ratio.index, 100 * rows["test_accuracy"].mean(), label=NAMES[norm], **look)
            for depth, seeds in rows["test_accuracy"]:
                accuracy.plot([depth] * len(seeds), 100 * seeds, "o", **dots)
        gradient.set(ylabel=kind, yscale="log", xscale="log")
        gradient.set_yticks([1e-20, 1e-10, 1])
        accuracy.set(ylim=(0, 105), yticks=[0, 50, 100])
        accuracy.set_xticks(depths := sorted(set(runs["depth"])), map(str, depths))
        accuracy.minorticks_off()
        for panel in (gradient, accuracy):
            finish(panel)
    axes[0, 0].set_title("gradient norm, first layer\nover last, before training", fontsize=10)
    axes[0, 1].set_title("test accuracy after 2,000\nupdates, % (dots: seeds)", fontsize=10)
    for panel in axes[-1]:
        panel.set_xlabel("hidden layers")
    axes[-1, 1].legend(frameon=False, loc="center left")
    save(figure, "vanishing_gradients")
    columns = [RATIO, RATIO.replace("first:", "middle:"), "test_accuracy", "train_loss", "lr"]
    by = runs.groupby(["kind", "norm", "depth"])
    print(by[columns].mean().assign(runs=by.size()).to_string(float_format="{:.4g}".format))


def batch_sizes() -> None:
    """The errors of each norm over the batch size, at equal samples and own rates."""
    runs = judging_runs("batches").astype({"batch_size": int})
    figure, axes = plt.subplots(1, 2, figsize=(NARROW, 3.4), layout="constrained", sharey=True)
    for panel, model in zip(axes, ("mlp", "cnn"), strict=True):
        for norm, name in NAMES.items():
            rows = runs[(runs["model"] == model) & (runs["norm"] == norm)]
            errors = 100 * (1 - rows["test_accuracy"])
            means = errors.groupby(rows["batch_size"]).mean()
            panel.plot(means.index, means, color=OWN[norm], linewidth=WIDTHS[norm], label=name)
            panel.plot(rows["batch_size"], errors, "o", color=OWN[norm], alpha=0.5, markersize=4)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(sizes := sorted(set(runs["batch_size"])), map(str, sizes))
        panel.set_yticks(ticks := [1.5, 2, 3, 5, 10, 20, 40], [f"{tick}%" for tick in ticks])
        panel.minorticks_off()
        panel.set(xlabel="batch size", title=f"{model.upper()}, MNIST")
        finish(panel)
    axes[0].set_ylabel("wrong answers on test")
    axes[0].legend(frameon=False)
    save(figure, "batch_crossing")
    how = {"test_accuracy": ["mean", "std", "size"], "train_accuracy": "mean", "lr": "first"}
    print(runs.groupby(["model", "batch_size", "norm"]).agg(how).round(4).to_string())
    compare(runs, ["model", "batch_size"], [("batchnorm", "layernorm"), ("layernorm", "groupnorm")])
    for model in ("mlp", "cnn"):
        rows = runs[runs["model"] == model]
        table = rows.pivot(index="batch_size", columns=["norm", "seed"], values="test_accuracy")
        for other in ("none", "layernorm", "groupnorm"):
            crossings = (table["batchnorm"] - table[other]).dropna(how="all").apply(crossing)
            found = 2 ** np.array(estimate(crossings.dropna())[:3])
            print(model, "batchnorm crosses", other, "at {:.1f} ({:.1f} to {:.1f})".format(*found))


def crossing(differences: pd.Series) -> float:
    """The logarithm of the batch size at which a difference turns from minus to plus, on a line between two sizes."""
    known = differences.dropna()
    size, value = np.log2(known.index.to_numpy(float)), known.to_numpy()
    at = next((k for k in range(len(value) - 1) if value[k] < 0 <= value[k + 1]), None)
    return np.nan if at is None else np.interp(0, value[at : at + 2], size[at : at + 2])


def warmup() -> None:
    """The accuracy of Post-LN and Pre-LN Transformers over the rate, with and without warm-up."""
    names = {"model.depth": "depth", "model.norm_position": "place", "schedule.warmup_steps": "warm"}
    # Seed 0 is judged, too: every seed is trained at every rate.
    runs = runs_of("warmup").rename(columns=names).astype({"depth": int, "warm": int})
    depths = sorted(set(runs["depth"]))
    figure, axes = plt.subplots(1, len(depths), figsize=(NARROW, 3.6), layout="constrained", sharey=True)
    for panel, depth in zip(axes, depths, strict=True):
        for (position, steps), rows in runs[runs["depth"] == depth].groupby(["place", "warm"]):
            color = FREE[0] if position == "post" else FREE[1]
            look = {"color": color, "markerfacecolor": "white" if steps else color}
            name = f"{position.capitalize()}-LN, {'' if steps else 'no '}warm-up"
            means = 100 * rows.groupby("lr")["test_accuracy"].mean()
            panel.plot(means.index, means, "--" if steps else "-", color=color, label=name)
            panel.plot(rows["lr"], 100 * rows["test_accuracy"], "o", alpha=0.4, markersize=4, **look)
        panel.set_xscale("log")
        panel.set_xticks([1e-4, 1e-3, 1e-2])
        panel.set(title=f"{depth} layers")
        finish(panel)
    axes[0].set_ylabel("test accuracy, %")
    axes[1].set_xlabel("peak learning rate")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, ncols=2, loc="outside lower center")
    save(figure, "warmup")
    best = {}  # the accuracies over seeds at the rate with the best mean validation
    for arm, rows in runs.groupby(["depth", "place", "warm"]):
        rate = rows.groupby("lr")["val_accuracy"].mean().idxmax()
        best[arm] = rows[rows["lr"] == rate].set_index("seed")["test_accuracy"]
        means = rows.groupby("lr")["test_accuracy"].mean()
        usable = means.index[means >= 0.8]
        print(*arm, f"best at {rate}: {100 * best[arm].mean():.2f}% of {len(best[arm])} seeds;",
              f"80% and more at rates of {usable.min()} to {usable.max()}")  # fmt: skip
    for one, other in itertools.combinations(best, 2):
        if one[0] == other[0]:
            print(*one, "-", *other, points(estimate((best[one] - best[other]).dropna())))
    columns = ["depth", "place", "warm", "lr"]
    table = runs.groupby(columns)[["test_accuracy", "train_accuracy"]].agg(["min", "mean", "max", "size"])
    print(table.round(4).to_string())


def learned() -> None:
    """Print what each norm reached in the settings that have learned, and write its errors for `normexp advise`."""
    runs = judging_runs("learned", "resnet").query("norm != 'batchnorm_noisy'")
    with_gain = runs["norm.affine"] != "none"
    keep_learned(runs[with_gain])
    runs["norm"] += with_gain.map({False: " without gain", True: ""})
    columns = ["test_accuracy", "test_loss", "val_loss", "train_accuracy", "train_loss", "lr"]
    by = runs.groupby(["data", "model", "norm"])
    table = by[columns].mean().assign(std=by["test_accuracy"].std(), seeds=by.size())
    errors = 1 - table["test_accuracy"]
    print(table.assign(against_none=errors / errors.xs("none", level="norm") - 1).round(4).to_string())
    pairs = [("batchnorm", other) for other in ("layernorm", "groupnorm", "batchnorm without gain")]
    pairs += [("layernorm_unbiased", "layernorm"), ("layernorm", "rmsnorm")]
    compare(runs, ["data", "model"], pairs)
    losses = runs[runs["model"] == "gpt"].pivot(index="seed", columns="norm", values="test_loss")
    for norm in losses.columns.drop("none"):
        found = estimate(losses[norm] - losses["none"])[:3]
        print("gpt", norm, "- none: {:+.3f} ({:+.3f} to {:+.3f}) nats".format(*found))


def keep_learned(runs: pd.DataFrame) -> None:
    """Write each setting's mean test error of each norm."""
    rows = []
    for (data, model), group in runs.groupby(["data", "model"]):
        seeds = group.groupby("norm")["seed"].transform("size")
        group = group[seeds == seeds.max()]  # LayerNorm has one seed in the ResNet
        errors = (1 - group.groupby("norm")["test_accuracy"].mean()).round(5).to_dict()
        text = "tinyshakespeare" if data == "text_file" else label("data", str(data))
        named = {"model": label("model", str(model)), "data": text}
        numbers = {"updates": int(group["steps"].iloc[0]), "seeds": int(seeds.max())}
        rows.append(json.dumps(named | numbers | {"errors": errors}))
    LEARNED.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def doubling() -> None:
    """Print the errors of drawn settings at their final length and at eight times as many updates, each seed at its own
    best rate, and on which side of the practical margin a difference lies."""
    kept, longer = runs_in(EVIDENCE), runs_of("doubling")
    kept = kept[kept["asked_by"].str.contains("bank:drawn") & (kept["seed"] < 2)]
    for name, rows in longer.groupby("setting"):
        errors_at = {}
        for when, runs in (("final", kept[kept["setting"] == name]), ("8 times", rows)):
            runs = runs.assign(setting=name, arm=runs["norm"].astype(str), level="")
            best = tuned_runs(runs, "loss" if (rows["model"] == "gpt").all() else "error")
            errors_at[when] = 1 - best[["test_accuracy", "train_accuracy"]].groupby(best["arm"]).mean()
        for one, other in (("batchnorm", "none"), ("layernorm", "none"), ("batchnorm", "layernorm")):
            gaps = []
            for when, errors in errors_at.items():
                mine, theirs = errors["test_accuracy"][[one, other]]
                margin = practical_margin(theirs, "test error")
                side = "less" if mine - theirs < -margin else "more" if mine - theirs > margin else "alike"
                gaps.append(f"{when} {100 * (mine - theirs):+.2f} {side}")
            print(name, one, "-", other, *gaps, sep="; ")
        print(name, {when: (100 * errors).round(1).to_dict("index") for when, errors in errors_at.items()})


def compare(runs: pd.DataFrame, by: list[str], also: list[tuple[str, str]]) -> None:
    """Print the points of accuracy beside no norm, and of other pairs: 95% intervals over seeds and test examples; of
    one seed over test examples alone."""
    answers = right_answers(runs)
    for setting, rows in runs.groupby(by):
        right: dict[str, dict[int, np.ndarray]] = {}  # norm -> seed -> which test answers are right
        for norm, seed, run in zip(rows["norm"], rows["seed"], rows["run"], strict=True):
            right.setdefault(norm, {})[seed] = answers[run]
        for one, other in [(norm, "none") for norm in right if norm != "none"] + also:
            if seeds := sorted(right.get(one, {}).keys() & right.get(other, {}).keys()):
                examples = np.stack([right[one][seed] - right[other][seed] for seed in seeds]).astype(float)
                found = estimate(examples.mean(1), examples=examples, resolution=2 / examples.shape[1] ** 2)
                if len(seeds) == 1:
                    half = 1.96 * examples.std() / math.sqrt(examples.size)
                    found = found._replace(low=found.mean - half, high=found.mean + half)
                print(*setting, one, "-", other, points(found), f"{len(seeds)} seeds")


def points(found: Estimate) -> str:
    return "{:+.2f} ({:+.2f} to {:+.2f})".format(*(100 * value for value in found[:3]))


def finish(panel: Axes) -> None:
    panel.grid(axis="y", color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(IMAGES / f"{name}.png", dpi=180, facecolor="white")


if __name__ == "__main__":
    np.seterr(all="raise")
    covariate_shift()
    vanishing_gradients()
    batch_sizes()
    warmup()
    learned()
    doubling()
