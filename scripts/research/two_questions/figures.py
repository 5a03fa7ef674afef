"""Draw the figures of README's six answers whose runs are in docs/data/two_questions.parquet.

    python scripts/research/two_questions/figures.py

It also prints the means behind them. Runs of seed 0 chose the rates and are left out.
"""

import itertools
import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import yaml
from matplotlib.axes import Axes

from normexp.claims.evidence.rates import tuned_runs
from normexp.claims.judge.comparison import practical_margin
from normexp.claims.spec.cell import value_of
from normexp.report.statistics import Estimate, estimate
from normexp.report.style import FREE, OWN

ROOT = Path(__file__).parents[3]
TABLE, IMAGES = ROOT / "docs" / "data" / "two_questions.parquet", ROOT / "docs" / "images"
NAMES = {
    "none": "no norm",
    "batchnorm": "BatchNorm",
    "batchnorm_noisy": "BatchNorm, then noise",
    "layernorm": "LayerNorm",
    "groupnorm": "GroupNorm",
}
COLORS = {**OWN, "batchnorm_noisy": FREE[0]}  # as in all reports and in the gallery
TITLES = {"sigmoid": "sigmoid", "tanh": "tanh", "relu": "ReLU"}  # of activations
WIDTHS = {
    "none": 3.4,
    "batchnorm": 2.4,
    "layernorm": 1.6,
    "groupnorm": 1.0,
}  # so that lines which coincide all show
SHIFT = "wasserstein_drift@middle"
TEXTS = ("d021", "d046")  # drawn settings whose rate the validation loss chooses
RATIO = "gradient_first_last_ratio/weight@first"


def runs_of(*plans: str) -> pd.DataFrame:
    """The judging runs of plans: those of fresh seeds at the rate that was chosen."""
    runs = pd.read_parquet(TABLE)
    return runs[runs["plan"].isin(plans) & (runs["seed"] > 0)]


def covariate_shift() -> None:
    """The shift of each norm, and what its networks learned."""
    # Noise is left out: its running statistics were collected with it, and are not those of the network in eval mode.
    runs = runs_of("shift", "resnet").query("norm in ('none', 'batchnorm')")
    runs = runs.assign(kind=runs["model"].str.upper() + ", " + runs["activation"].map(TITLES))
    runs["kind"] = runs["kind"].fillna("ResNet")  # it names no activation
    on_mnist = ["MLP, sigmoid", "MLP, tanh", "CNN, ReLU"]
    figure, axes = plt.subplots(
        1, 3, figsize=(9.6, 3.3), layout="constrained", gridspec_kw={"width_ratios": [4, 3.4, 1.3]}
    )
    shown = (
        (
            SHIFT,
            1,
            "shift of the layers' inputs\nin 100 updates, in standard deviations",
            [*on_mnist, "ResNet"],
        ),
        ("test_accuracy", 100, "test accuracy on MNIST, %", on_mnist),
        ("test_accuracy", 100, "on CIFAR-10, %", ["ResNet"]),
    )
    for panel, (column, scale, label, kinds) in zip(axes, shown, strict=True):
        for place, kind in enumerate(kinds):
            for offset, norm in enumerate(("none", "batchnorm")):
                values = scale * runs[(runs["kind"] == kind) & (runs["norm"] == norm)][column]
                x = place + 0.25 * (offset - 0.5)
                panel.plot([x] * len(values), values, "o", color=COLORS[norm], alpha=0.6, markersize=5)
                panel.plot([x - 0.09, x + 0.09], [values.mean()] * 2, color=COLORS[norm], linewidth=2.5,
                           label=NAMES[norm] if place == 0 else None)  # fmt: skip
        panel.set_xticks(range(len(kinds)), kinds)
        panel.set_ylabel(label)
        finish(panel)
    axes[0].set_ylim(bottom=0)
    axes[1].legend(frameon=False, fontsize=9, loc="lower right")
    save(figure, "covariate_shift")
    columns = [SHIFT, "ics_cosine@middle", "effective_beta@middle", "test_accuracy", "train_loss", "lr"]
    print(runs.groupby(["kind", "norm"])[columns].agg(["mean", "std"]).round(4).to_string())
    compare(runs, ["kind"], [])


def vanishing_gradients() -> None:
    """The gradient at the first layer over that at the last, and what the networks learned, over depth."""
    runs = runs_of("depth").assign(depth=lambda rows: rows["depth"].astype(int))
    runs = runs.assign(
        kind=runs["activation"].map(TITLES) + runs["optimizer"].map({"sgd": ", SGD", "adamw": ", AdamW"})
    )
    depths = sorted(set(runs["depth"]))
    finished = runs.groupby("kind")["depth"].nunique()  # of one depth there is no line
    kinds = [
        kind
        for kind in ("sigmoid, SGD", "sigmoid, AdamW", "tanh, SGD", "ReLU, SGD")
        if finished.get(kind, 0) > 1
    ]
    size = (2.2 * len(kinds) + 0.3, 4.2)
    figure, axes = plt.subplots(
        2, len(kinds), figsize=size, layout="constrained", sharex=True, sharey="row", squeeze=False
    )
    for column, kind in zip(axes.T, kinds, strict=True):
        for norm in ("none", "batchnorm", "layernorm"):
            rows = runs[(runs["kind"] == kind) & (runs["norm"] == norm)].groupby("depth")
            look = {"color": COLORS[norm], "linewidth": WIDTHS[norm]}
            dots = {"color": COLORS[norm], "alpha": 0.6, "markersize": 5.5, "markeredgewidth": 0}
            ratio = rows[RATIO].mean().clip(lower=1e-20)
            column[0].plot(ratio.index, ratio, "o-", markersize=4.5, **look)
            column[1].plot(ratio.index, 100 * rows["test_accuracy"].mean(), label=NAMES[norm], **look)
            for depth, seeds in rows["test_accuracy"]:
                column[1].plot([depth] * len(seeds), 100 * seeds, "o", **dots)
        column[0].set(title=kind, yscale="log", xscale="log")
        column[0].set_yticks([10.0**power for power in range(-20, 1, 5)])
        column[1].set(xlabel="hidden layers", ylim=(0, 102))
        column[1].set_xticks(depths, [str(depth) for depth in depths])
        column[1].minorticks_off()
        for panel in column:
            finish(panel)
    axes[0, 0].set_ylabel("gradient norm, first layer\nover last, before training")
    axes[1, 0].set_ylabel("test accuracy after\n2,000 updates, %\n(dots: seeds)")
    axes[1, -1].legend(frameon=False, loc="center left")
    save(figure, "vanishing_gradients")
    columns = [RATIO, "gradient_first_last_ratio/weight@middle", "test_accuracy", "train_loss", "lr"]
    by = runs.groupby(["kind", "norm", "depth"])
    print(by[columns].mean().assign(runs=by.size()).to_string(float_format="{:.4g}".format))


def batch_sizes() -> None:
    """The errors of each norm over the batch size, at equal samples and own rates."""
    runs = runs_of("batches")
    sizes = sorted(set(runs["batch_size"]))
    done = runs.groupby("model")["batch_size"].nunique()
    kinds = [model for model in ("mlp", "cnn") if done.get(model, 0) > 3]  # of one size there is no line
    figure, axes = plt.subplots(
        1, len(kinds), figsize=(4.2 * max(len(kinds), 1.6), 3.6), layout="constrained", squeeze=False
    )
    for panel, model in zip(axes[0], kinds, strict=True):
        for norm in ("none", "batchnorm", "layernorm", "groupnorm"):
            rows = runs[(runs["model"] == model) & (runs["norm"] == norm)]
            errors = 100 * (1 - rows["test_accuracy"])
            means = errors.groupby(rows["batch_size"]).mean()
            panel.plot(means.index, means, color=COLORS[norm], linewidth=WIDTHS[norm], label=NAMES[norm])
            panel.plot(rows["batch_size"], errors, "o", color=COLORS[norm], alpha=0.5, markersize=4)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.set_yticks(ticks := [1.5, 2, 3, 5, 10, 20, 40], [f"{tick}%" for tick in ticks])
        panel.minorticks_off()
        panel.set(
            xlabel="batch size",
            ylabel="wrong answers on test",
            title=f"{model.upper()}, 40,000 images of MNIST",
        )
        finish(panel)
    axes[0, 0].legend(frameon=False, fontsize=9)
    save(figure, "batch_crossing")
    print(
        runs.groupby(["model", "batch_size", "norm"])[["test_accuracy", "train_accuracy", "lr"]]
        .agg({"test_accuracy": ["mean", "std", "size"], "train_accuracy": "mean", "lr": "first"})
        .round(4)
        .to_string()
    )
    compare(runs, ["model", "batch_size"], [("batchnorm", "layernorm"), ("layernorm", "groupnorm")])
    for model in kinds:
        own = runs[runs["model"] == model]
        table = own.pivot(index="batch_size", columns=["norm", "seed"], values="test_accuracy")
        for other in ("none", "layernorm", "groupnorm"):
            places = (table["batchnorm"] - table[other]).dropna(how="all").apply(crossing)
            found = 2 ** np.array(estimate(places.dropna())[:3])
            print(model, "batchnorm crosses", other, "at {:.1f} ({:.1f} to {:.1f})".format(*found))


def crossing(differences: pd.Series) -> float:
    """The logarithm of the batch size at which a difference turns from minus to plus, on a line between two sizes."""
    known = differences.dropna()
    size, value = np.log2(known.index.to_numpy(float)), known.to_numpy()
    at = next((k for k in range(len(value) - 1) if value[k] < 0 <= value[k + 1]), None)
    return np.nan if at is None else np.interp(0, value[at : at + 2], size[at : at + 2])


def warmup() -> None:
    """The accuracy of Post-LN and Pre-LN Transformers over the rate, with and without warm-up."""
    runs = pd.read_parquet(TABLE).query("plan == 'warmup'")
    runs = runs.assign(depth=runs["depth"].astype(int))
    # seed 0 is judged too: every seed is trained at every rate
    depths = sorted(set(runs["depth"]))
    figure, axes = plt.subplots(
        1, len(depths), figsize=(3 * len(depths) + 0.6, 3.3), layout="constrained", sharey=True, squeeze=False
    )
    looks = {
        ("post", 0): (FREE[0], "-", "Post-LN, no warm-up"),
        ("post", 90): (FREE[0], "--", "Post-LN, warm-up"),
        ("pre", 0): (FREE[1], "-", "Pre-LN, no warm-up"),
        ("pre", 90): (FREE[1], "--", "Pre-LN, warm-up"),
    }
    for panel, depth in zip(axes[0], depths, strict=True):
        for (place, steps), (color, line, name) in looks.items():
            own = runs[
                (runs["depth"] == depth) & (runs["norm_position"] == place) & (runs["warmup_steps"] == steps)
            ]
            means = 100 * own.groupby("lr")["test_accuracy"].mean()
            panel.plot(means.index, means, line, color=color, label=name)
            panel.plot(own["lr"], 100 * own["test_accuracy"], "o", color=color, alpha=0.4, markersize=4,
                       markerfacecolor=color if steps == 0 else "white")  # fmt: skip
        panel.set_xscale("log")
        panel.set(xlabel="peak learning rate", title=f"Transformer of {depth} layers")
        finish(panel)
    axes[0, 0].set_ylabel("test accuracy, %")
    axes[0, 0].legend(frameon=False, fontsize=9, loc="lower left")
    save(figure, "warmup")
    best = {}  # the accuracies over seeds at the rate with the best mean validation
    for arm, own in runs.groupby(["depth", "norm_position", "warmup_steps"]):
        rate = own.groupby("lr")["val_accuracy"].mean().idxmax()
        best[arm] = own[own["lr"] == rate].set_index("seed")["test_accuracy"]
        means = own.groupby("lr")["test_accuracy"].mean()
        usable = means.index[means >= 0.8]
        print(*arm, f"best at {rate}: {100 * best[arm].mean():.2f}% of {len(best[arm])} seeds;",
              f"80% and more at rates of {usable.min()} to {usable.max()}")  # fmt: skip
    for depth in depths:
        arms = [arm for arm in best if arm[0] == depth]
        for one, other in itertools.combinations(arms, 2):
            print(*one, "-", *other, points(estimate((best[one] - best[other]).dropna())))
    columns = ["depth", "norm_position", "warmup_steps", "lr"]
    table = runs.groupby(columns)[["test_accuracy", "train_accuracy"]].agg(["min", "mean", "max", "size"])
    print(table.round(4).to_string())


def learned() -> None:
    """Print what each norm reached in the settings that have learned."""
    runs = runs_of("learned", "resnet").query("norm != 'batchnorm_noisy'")
    runs["norm"] += (runs["affine"] == "none").map({True: " without gain", False: ""})
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


def doubling() -> None:
    """Print the errors of drawn settings at their final length and at eight times as many updates, each seed at its own
    best rate, and on which side of the practical margin a difference lies."""
    kept = pd.read_parquet(ROOT / "docs" / "evidence" / "runs.parquet")
    kept = kept[kept["asked_by"].str.contains("bank:drawn") & (kept["seed"] < 2)]
    longer = pd.read_parquet(TABLE).query("plan == 'doubling'")
    cells = yaml.safe_load(Path(__file__).with_name("doubling.yaml").read_text())["cells"]
    for name, cell in cells.items():
        size = int(value_of("batch_size", cell["overrides"]))  # no two of these settings share it
        told = {}
        for when, runs in (
            ("final", kept[kept["setting"] == name]),
            ("8 times", longer[longer["batch_size"] == size]),
        ):
            runs = runs.assign(setting=name, arm=runs["norm"].astype(str), level="")
            best = tuned_runs(runs, "loss" if name in TEXTS else "error")
            told[when] = 1 - best[["test_accuracy", "train_accuracy"]].groupby(best["arm"]).mean()
        for one, other in (("batchnorm", "none"), ("layernorm", "none"), ("batchnorm", "layernorm")):
            words = []
            for when, errors in told.items():
                if not {one, other} <= set(errors.index):
                    continue
                mine, theirs = errors["test_accuracy"][[one, other]]
                margin = practical_margin(theirs, "test error")
                side = "less" if mine - theirs < -margin else "more" if mine - theirs > margin else "alike"
                words.append(f"{when} {100 * (mine - theirs):+.2f} {side}")
            print(name, one, "-", other, *words, sep="; ")
        print(name, {when: (100 * errors).round(1).to_dict("index") for when, errors in told.items()})


def compare(runs: pd.DataFrame, by: list[str], also: list[tuple[str, str]]) -> None:
    """Print the points of accuracy beside no norm, and of other pairs: 95% intervals over seeds and test examples; of
    one seed over test examples alone."""
    answers = np.load(TABLE.with_suffix(".npz"))
    for setting, rows in runs.groupby(by):
        right: dict[str, dict[int, np.ndarray]] = {}  # norm -> seed -> which test answers are right
        for norm, seed, key in zip(rows["norm"], rows["seed"], rows["key"], strict=True):
            right.setdefault(norm, {})[seed] = np.unpackbits(answers[key]).astype(float)
        for one, other in [(norm, "none") for norm in right if norm != "none"] + also:
            if seeds := sorted(right.get(one, {}).keys() & right.get(other, {}).keys()):
                examples = np.stack([right[one][seed] - right[other][seed] for seed in seeds])
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
