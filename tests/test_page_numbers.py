"""The tables of the pages on chosen networks are computed from docs/evidence: each printed number is its value, rounded
once."""

import json
import math
import re
from decimal import Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from kept_runs import best_runs, judging_runs, right_answers, runs_of
from scipy import stats

from normexp.report.statistics import estimate

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "docs/evidence"
NORMS = {
    "no norm": "none", "BatchNorm": "batchnorm", "LayerNorm": "layernorm", "GroupNorm": "groupnorm",
    "RMSNorm": "rmsnorm", "BatchNorm, then noise": "batchnorm_noisy",
}  # fmt: skip
RATIO = "logged/first:gradient_first_last_ratio/weight"
SETTINGS = {
    "MLP, MNIST": ("mlp", "mnist"), "CNN, MNIST": ("cnn", "mnist"), "Transformer, MNIST": ("transformer", "mnist"),
    "CNN, CIFAR-10": ("cnn", "cifar10_jpeg"), "ResNet of 8 layers, CIFAR-10": ("resnet", "cifar10_jpeg"),
}  # fmt: skip
NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e-?\d+)?")


def rows_of(page: str, head: str) -> list[list[str]]:
    """The cells of the table of a page whose head begins so."""
    text = (ROOT / "docs" / page).read_text()
    lines = text[text.index(f"\n| {head}" if head else "\n| |") + 1 :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:1] + lines[2:]]


def agrees(text: str, value: float) -> bool:
    """Whether a printed number is a value, rounded to its last digit; zeros at the end of 590 are no digits."""
    number = Decimal(text)
    number = number if "." in text else number.normalize()
    unit = 10.0 ** int(number.as_tuple().exponent)
    return abs(float(number) - value) <= unit / 2 * (1 + 1e-9)


judging = cache(judging_runs)


@cache
def answers() -> dict[int, np.ndarray]:
    return right_answers(judging("learned", "resnet", "shift", "batches"))


def minus(runs: pd.DataFrame, one: str, other: str) -> tuple[float, ...]:
    """The points between two norms: mean and interval, or the value of each seed where there are few."""
    runs = runs[runs["norm.affine"] != "none"]
    right = {
        norm: {seed: answers()[run] for seed, run in runs[runs["norm"] == norm][["seed", "run"]].to_numpy()}
        for norm in (one, other)
    }
    seeds = sorted(right[one].keys() & right[other].keys())
    z = np.stack([right[one][seed] - right[other][seed] for seed in seeds]).astype(float)
    found = estimate(z.mean(1), examples=z, resolution=2 / z.shape[1] ** 2)
    return tuple(100 * np.array(found.few or found[:3]))


def student(values: pd.Series) -> tuple[float, ...]:
    """Mean and 95% interval by Student's t."""
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return (values.mean(), values.mean() - half, values.mean() + half)


def check(text: str, values: tuple[float, ...]) -> None:
    printed = NUMBER.findall(text.replace("in its two seeds", ""))
    assert len(printed) == len(values), (text, values)
    assert all(agrees(one, value) for one, value in zip(printed, values, strict=True)), (text, values)


@cache
def text_of(page: str) -> str:
    """A page in one line, without emphasis."""
    return " ".join((ROOT / page).read_text().replace("*", "").split())


def numbers(text: str, words: str) -> list[str]:
    """The numbers of the one place of a text with these words: # is a number, ... is anything."""
    pattern = re.escape(words).replace(r"\#", r"([-+]?[\d,]*\.?\d+)").replace(r"\.\.\.", ".*?")
    (found,) = re.finditer(pattern, text)
    return [number.replace(",", "") for number in found.groups()]


def says(text: str, words: str, *values: float) -> None:
    check(" ".join(numbers(text, words)), values)


@pytest.mark.parametrize(
    ("text", "value", "right"),
    [(".997", 0.99649, False), (".996", 0.99649, True), ("97.9", 97.847, False), ("97.8", 97.847, True),
     ("590", 586.3, True), ("590", 584.0, False), ("5e-10", 4.6e-10, True), ("+2.43", 2.43, True)],
)  # fmt: skip
def test_a_number_that_is_rounded_twice_is_seen(text, value, right):
    assert agrees(text, value) is right


COLUMNS = ("first:wasserstein_drift", "middle:wasserstein_drift", "middle:ics_cosine")
SHIFT = {f"logged/{column}/*": cell for cell, column in enumerate(COLUMNS, start=1)}


def kind_of(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    """The runs of `tanh MLP`, `CNN`, ..."""
    *activation, model = name.lower().split()
    own = runs[runs["model"] == model]
    return own[own["model.activation"] == activation[0]] if activation else own


def shift_runs() -> pd.DataFrame:
    return judging("shift", "resnet")


def test_covariate_shift():
    table = rows_of("covariate_shift.md", "network, data")[1:]
    assert len(table) == 4
    for name, *cells in table:
        own = kind_of(shift_runs(), name.split(",")[0])
        means = own.groupby("norm").mean(numeric_only=True)
        both = means.loc[["none", "batchnorm"]]
        for column, place in SHIFT.items():
            check(cells[place - 1], tuple(both[column]))
        check(cells[3], tuple(100 * both["test_accuracy"]))
        check(cells[4], minus(own, "batchnorm", "none"))


def test_how_much_less_the_inputs_move_with_batchnorm():
    kinds = ("tanh MLP", "CNN", "sigmoid MLP", "ResNet")
    means = [kind_of(shift_runs(), name).groupby("norm").mean(numeric_only=True) for name in kinds]
    columns = [*SHIFT][:2]
    first, middle = ([own[column]["none"] / own[column]["batchnorm"] for own in means] for column in columns)
    text = text_of("docs/covariate_shift.md")
    says(text, "they move # and # times less in ... only # and # times less", *middle)
    says(text, "# to # times less", min(first), max(first))
    rates = [own["lr"]["batchnorm"] / own["lr"]["none"] for own in means[2:]]
    says(text, "rate is # and # times larger", *rates)


def study_values(claim: str, arms: dict[str, str]) -> pd.DataFrame:
    """Percent of each seed of a study's claim, by the page's names of its arms."""
    runs = best_runs(claim)
    table = 100 * runs.pivot(index="seed", columns="arm", values="accuracy")
    assert {*table} == {*arms.values()}
    assert table.notna().all(axis=None)
    return table[[*arms.values()]].set_axis([*arms], axis=1)


def check_arms(page: str, head: str, table: pd.DataFrame, baseline: str) -> None:
    """Each row of a study's table has the mean of its arm, and all but the baseline's the difference to it."""
    _, *rows = rows_of(page, head)
    assert [row[0] for row in rows] == [*table]
    for name, mean, difference, *_ in rows:
        check(mean, (table[name].mean(),))
        if difference:
            check(difference, student(table[name] - table[baseline]))


NOISE = {
    "no norm": "none", "BatchNorm": "batchnorm", "BatchNorm, then noise": "noise", "BatchNorm, then a walk": "walk",
    "BatchNorm, then a constant offset": "offset", "no norm, then noise": "noise_alone",
}  # fmt: skip
THREE_ARMS = dict([*NOISE.items()][:3])  # of N6, N7 and N9


def chosen_runs(claim: str) -> pd.DataFrame:
    """The best runs of a study's claim, with all columns of the evidence."""
    return best_runs(claim).merge(pd.read_parquet(EVIDENCE / "runs.parquet"), on="run", suffixes=("", "_of"))


def test_the_study_of_noise():
    table = study_values("N1", NOISE)
    assert table.shape == (4, 6)
    check_arms("studies/noise/README.md", "arm | accuracy", table, "BatchNorm")
    noise, walk = (table["BatchNorm"] - table[f"BatchNorm, then {what}"] for what in ("noise", "a walk"))
    alone = table["no norm"] - table["no norm, then noise"]
    text = text_of("docs/covariate_shift.md")
    says(text, "Ioffe and Szegedy mean, costs # (# to #)", *student(walk))
    says(text, "Without a norm noise costs # (# to #)", *student(alone))
    gain = table["BatchNorm"] - table["no norm"]
    cost, *interval = student(noise)
    says(text, "noise costs BatchNorm # of # points (# to #)", cost, gain.mean(), *interval)
    shifts = kind_of(shift_runs(), "sigmoid MLP").groupby("norm")["logged/middle:wasserstein_drift/*"].mean()
    says(text, "inputs shift by [#]... with it, and by # without", shifts["batchnorm_noisy"], shifts["none"])
    page = text_of("docs/studies/noise/README.md").partition("N5")[0]
    says(page, "# more than behind BatchNorm (# to #)", *student(alone - noise))
    runs = chosen_runs("N1")
    moved = runs.groupby("arm")["logged/wasserstein_drift/*"].mean()
    says(page, "inputs move # deviations ... noise, and # with a walk", moved["noise"], moved["walk"])
    assert round(moved["walk"] / moved["noise"], 1) == 0.9  # "nine tenths as far"
    own = runs[runs["arm"] != "noise"]  # its runs have no accuracy with statistics of the noise
    assert (own["test_accuracy"] - own["accuracy"]).abs().max() < 0.001  # "the same to .1 points"


def test_the_study_of_noise_in_a_network_of_relu():
    table = study_values("N5", NOISE)
    assert table.shape == (4, 6)
    check_arms("studies/noise/README.md", "arm, ReLU | accuracy", table, "BatchNorm")
    page = text_of("docs/studies/noise/README.md").partition("N5, a ReLU")[2].partition("N6, a CNN")[0]
    text = text_of("docs/covariate_shift.md")
    norm, noise, none = (table[name] for name in ("BatchNorm", "BatchNorm, then noise", "no norm"))
    says(page, "the network is # points better", (noise - norm).mean())
    moved = chosen_runs("N5").groupby("arm").mean(numeric_only=True)
    middle, first = (moved[f"logged/{when}:wasserstein_drift/*"] for when in ("middle", "first"))
    arms = middle[["noise", "walk", "batchnorm", "none"]]
    says(page, "move # deviations ..., # with a walk, # with ... and # without", *arms)
    says(page, "it is # with noise and # without", *first[["noise", "none"]])
    runs = chosen_runs("N5").query("arm == 'noise'").set_index("seed")
    mixed = 100 * runs["logged/test_mixed/accuracy"]
    says(page, "accuracy is #%, # points lower (# to #)", mixed.mean(), *student(noise - mixed))
    assert abs(mixed.mean() - none.mean()) < 0.05  # "the whole gain would seem to be lost"
    cost = none - table["no norm, then noise"]
    more = student(cost - (norm - noise))
    says(page, "costs # points (# to #), # more ... (# to #)", *student(cost), *more)
    says(text, "ReLU MLP ... # points better with it (# to #)", *student(noise - norm))
    says(text, "With statistics of the noise it loses #", (noise - mixed).mean())


def test_the_study_of_noise_in_a_network_of_convolutions():
    table = study_values("N6", THREE_ARMS)
    assert table.shape == (3, 3)
    check_arms("studies/noise/README.md", "arm, CNN | accuracy", table, "no norm")
    page = text_of("docs/studies/noise/README.md").partition("N6, a CNN")[2].partition("N7, a narrow")[0]
    text = text_of("docs/covariate_shift.md")
    none, norm, noise = (table[name] for name in table)
    says(page, "Noise costs # points, ... (# to #)", *student(norm - noise))
    runs = chosen_runs("N6")
    moved = runs.groupby("arm").mean(numeric_only=True)
    arms = moved["logged/middle:wasserstein_drift/*"][["noise", "batchnorm", "none"]]
    says(page, "move # deviations ... noise, # with BatchNorm and # without", *arms)
    whole = moved["logged/wasserstein_drift/*"]
    says(page, "moves them # times as far", whole["noise"] / whole["batchnorm"])
    mixed = 100 * runs.query("arm == 'noise'").set_index("seed")["logged/test_mixed/accuracy"]
    says(page, "accuracy is #%, # points lower (# to #)", mixed.mean(), *student(noise - mixed))
    assert (noise > mixed).all()  # "lower in each seed"
    says(text, "A CNN (...) keeps # of # points", (noise - none).mean(), (norm - none).mean())


def narrow_resnet(
    claim: str, head: str, start: str, move: str
) -> tuple[str, pd.DataFrame, pd.DataFrame, pd.Series]:
    """What N7 and N9 both ask: the page from there, chosen runs, percent by arm, and of noise by its own statistics."""
    table, runs = study_values(claim, THREE_ARMS), chosen_runs(claim)
    assert table.shape == (3, 3)
    check_arms("studies/noise/README.md", head, table, "no norm")
    page = text_of("docs/studies/noise/README.md").partition(start)[2]
    middle = runs.groupby("arm")["logged/middle:wasserstein_drift/*"].mean()
    arms = middle[["noise", "batchnorm", "none"]]
    says(page, f"{move} # deviations ... noise, # with BatchNorm and # without", *arms)
    assert round(middle["noise"] / middle["none"]) == 2  # "twice as far as without a norm"
    mixed = 100 * runs.query("arm == 'noise'").set_index("seed")["logged/test_mixed/accuracy"]
    return page, runs, table, mixed


def test_the_study_of_noise_in_a_narrow_resnet():
    page, runs, table, mixed = narrow_resnet(
        "N7", "arm, ResNet | accuracy", "N7, a narrow ResNet", "they move"
    )
    none, norm, noise = (table[name] for name in table)
    says(page, "Noise costs # points (# to #)", *student(norm - noise))
    says(page, "accuracy is #%, # points below no norm", mixed.mean(), (none - mixed).mean())
    _, low, high = student(none - mixed)
    assert low < 0 < high
    own = 100 * runs.query("arm == 'batchnorm'").set_index("seed")["test_accuracy"]
    says(page, "BatchNorm has #%, # points more", own.mean(), (own - norm).mean())
    says(
        text_of("docs/runs.md"), "is # to # points less accurate with them", min(own - norm), max(own - norm)
    )


def test_the_study_of_noise_in_a_narrow_resnet_at_own_rates():
    head, start = "arm, ResNet at own rates", "N9, the narrow ResNet at own rates"
    page, runs, table, mixed = narrow_resnet("N9", head, start, "inputs move")
    none, norm, noise = (table[name] for name in table)
    left, gain = (noise - none).mean(), (norm - none).mean()
    assert round(3 * left / gain) == 2  # "two thirds of it are left"
    says(text_of("README.md"), "a narrow ResNet keeps # of #", left, gain)
    says(text_of("docs/covariate_shift.md"), "a narrow ResNet # of #", left, gain)
    assert runs.groupby("arm")["lr"].unique().map(list).to_dict() == {
        "none": [0.01], "batchnorm": [0.03], "noise": [0.03],
    }  # fmt: skip
    says(page, "# points in the mean, ... interval (# to #)", *student(norm - noise))
    says(page, "accuracy is #%, # points (# to #) below no norm", mixed.mean(), *student(none - mixed))


DRAWN_ARMS = {"BatchNorm": "batchnorm", "no norm": "none", "BatchNorm with noise": "noise"}


def test_the_study_of_noise_over_drawn_networks():
    """Counted by hand: the mean over seeds of each network beside the margin that docs/claims.md gives."""
    best = best_runs("N8").drop_duplicates(["setting", "seed", "arm"])  # failed runs have fewer steps
    accuracy = best.pivot(index=["setting", "seed"], columns="arm", values="accuracy")
    counts = {}
    for name, *cells in rows_of("studies/noise/README.md", "drawn networks")[1:]:
        one, other = (DRAWN_ARMS[arm] for arm in name.split(" minus "))
        pairs = accuracy[[one, other]].dropna().groupby("setting").mean()
        error = 1 - pairs[other]
        margin = (error / 10).where(error < 0.1, 0.01).where(error >= 0.03, 0.003)
        difference = pairs[one] - pairs[other]
        counts[name] = int((difference > margin).sum()), int((difference < -margin).sum())
        assert cells[:2] == [f"{counts[name][0]} of {len(pairs)}", str(counts[name][1])]
        check(cells[2], (100 * difference.median(),))
    better, noisy = (counts[f"{arm} minus no norm"][0] for arm in ("BatchNorm", "BatchNorm with noise"))
    assert better == noisy  # "as without", "with and without it"
    for page in ("README.md", "docs/covariate_shift.md"):
        says(text_of(page), "no norm in # of 24 drawn networks", better)
    says(text_of("docs/covariate_shift.md"), "gains the margin in #, with noise in #", better, noisy)
    says(
        text_of("docs/covariate_shift.md"),
        "the margin in # of 24",
        counts["BatchNorm with noise minus BatchNorm"][1],
    )


RESIDUALS = {"no norm": "none", "BatchNorm": "batchnorm", "no norm, branches start at 0": "skip_init"}


def test_the_study_of_residuals():
    table = study_values("R3", RESIDUALS)
    assert table.shape == (3, 3)
    check_arms("studies/residuals/README.md", "arm, ResNet | accuracy", table, "no norm")
    page = text_of("docs/studies/residuals/README.md")
    none, norm, skip = (table[name] for name in table)
    says(page, "SkipInit lies # points (# to #) below", *student(norm - skip))
    assert student(skip - none)[2] > 1  # "does not exclude a gain of a point"
    runs = pd.read_parquet(
        EVIDENCE / "runs.parquet", columns=["asked_by", "norm", "test_accuracy_reestimated"]
    )
    anew = runs[runs["asked_by"].str.startswith("R3:") & (runs["norm"] == "batchnorm")]
    says(page, "without augmentation it has #%", 100 * anew["test_accuracy_reestimated"].mean())


WEIGHTS = {
    "Xavier's, BatchNorm": "batchnorm", "Xavier's times 4": "times_4", "Xavier's times 4, centered": "centered",
    "each unit fitted to one batch": "units",
}  # fmt: skip


def test_the_study_of_initial_weights():
    arms = WEIGHTS | {
        "Xavier's": "xavier", "Xavier's, LayerNorm": "layernorm", "orthogonal": "orthogonal",
        "orthogonal, each layer fitted (LSUV)": "lsuv",
    }  # fmt: skip
    table = study_values("I1", arms)
    assert table.shape == (3, 8)
    _, *rows = rows_of("studies/initialization/README.md", "initial weights")
    assert {row[0] for row in rows} == {*arms}
    for name, accuracy, difference in rows:
        check(accuracy, tuple(table[name]) if accuracy.count("%") == 3 else (table[name].mean(),))
        if difference:
            check(difference, student(table[name] - table["Xavier's, BatchNorm"]))
    text = text_of("docs/vanishing_gradients.md")
    wide, norm, centered = (
        table[name] for name in ("Xavier's times 4", "Xavier's, BatchNorm", "Xavier's times 4, centered")
    )
    says(text, "reach #%, as BatchNorm does (#%)", wide.mean(), norm.mean())
    says(text, "network, #% (#, # to #)", centered.mean(), *student(centered - norm))
    units = table["each unit fitted to one batch"]
    says(text, "on one batch, #%", units.mean())
    better = [student(own - norm)[1] for own in (wide, centered, units)]
    assert round(min(better), 2) == -0.5  # "no interval reaches below -.50 points"
    assert round(better[2], 2) == -0.15  # "at most .15 points worse"


def test_the_study_of_initial_weights_at_32_layers():
    table = study_values("I2", WEIGHTS)
    check_arms("studies/initialization/README.md", "initial weights, 32 layers", table, "Xavier's, BatchNorm")
    centered, norm = table["Xavier's times 4, centered"], table["Xavier's, BatchNorm"]
    assert student(centered - norm)[1] > -0.5
    text = text_of("docs/vanishing_gradients.md")
    says(text, "with 32 layers #% (BatchNorm #%)", centered.mean(), norm.mean())


def test_other_starts_at_32_layers():
    runs = pd.read_parquet(EVIDENCE / "runs.parquet")
    runs = runs[runs["asked_by"].astype(str).str.contains(r"\bI5:")]
    accuracy = (100 * runs["test_accuracy"]).groupby(runs["norm"] == "batchnorm").agg(["min", "max", "count"])
    assert accuracy.loc[False].tolist() == pytest.approx([11.35, 11.35, 60])
    check("(95.60 to 97.24%)", tuple(accuracy.loc[True, ["min", "max"]]))
    assert accuracy.loc[True, "count"] == 15
    assert "all 15 runs (95.60 to 97.24%)" in text_of("docs/studies/initialization/README.md")


def test_the_study_of_layers_steps():
    arms = {
        ("none", "SGD"): "sgd",
        ("first half", "gradients"): "first_half",
        ("last half", "gradients"): "last_half",
        ("all", "gradients"): "all",
        ("all", "the whole gradient clipped"): "clipped",
        ("all", "the whole gradient of length 1"): "normalized",
        ("first half", "Adam"): "adam_first",
        ("last half", "Adam"): "adam_last",
        ("all", "Adam"): "adam_all",
    }
    table = study_values("L1", {" ".join(name): arm for name, arm in arms.items()})
    assert table.shape == (3, 9), table
    _, *rows = rows_of("studies/layer_steps/README.md", "layers that differ")
    for (layers, how, accuracy), (place, named) in zip(rows, arms, strict=True):
        assert (layers, how.startswith(named)) == (place, True)
        found = sorted(table[f"{place} {named}"])
        check(accuracy, tuple(found) if accuracy.count("%") == 3 else (found[0],))
        assert accuracy.count("%") == 3 or found[0] == found[-1]


def test_no_steps_train_16_layers():
    runs = pd.read_parquet(EVIDENCE / "runs.parquet")
    runs = runs[runs["asked_by"].astype(str).str.contains(r"\bL2:")]
    says(text_of("docs/studies/layer_steps/README.md"), "L2, 16 layers (# runs", len(runs))
    assert {*runs["test_accuracy"].round(4)} == {0.1135}


def test_the_study_of_parts():
    arms = {
        "no norm": "none", "BatchNorm": "batchnorm", "frozen after 100 updates": "frozen_100",
        "no gradient through the statistics": "detached", "deviation alone": "deviation", "mean alone": "mean",
        "statistics of the last 10 batches": "last_10", "statistics of the last 100 batches": "last_100",
    }  # fmt: skip
    table = study_values("B1", arms)
    assert table.shape == (3, 8)
    check_arms("studies/parts_of_batchnorm/README.md", "arm | accuracy", table, "BatchNorm")
    lost = table["BatchNorm"] - table["no gradient through the statistics"]
    gain = table["BatchNorm"] - table["no norm"]
    frozen = table["BatchNorm"] - table["frozen after 100 updates"]
    losses = (lost.mean(), gain.mean(), frozen.mean())
    text, page = text_of("docs/covariate_shift.md"), text_of("docs/studies/parts_of_batchnorm/README.md")
    says(text, "statistics # of # points are lost, with statistics frozen after 100 updates #", *losses)
    assert student(lost)[1] > 0.3 > student(frozen)[1]
    stale = [(table["BatchNorm"] - table[f"statistics of the last {n} batches"]).mean() for n in (10, 100)]
    says(page, "earlier batches lose # and # points", *stale)
    mean, low, high = student(table["mean alone"] - table["no norm"])
    says(page, "# points below no norm (# to #)", -mean, low, high)
    kept = (table["deviation alone"] - table["no norm"]).mean() / gain.mean()
    assert round(3 * kept) == 2  # "about two thirds"
    assert round(4 * (1 - frozen.mean() / gain.mean())) == 3  # "about three quarters"


def test_the_study_of_speed():
    table = study_values("V1", {"none": "none", "BatchNorm": "batchnorm"})
    gain = table["BatchNorm"] - table["none"]
    text = text_of("docs/studies/speed/README.md")
    says(text, "BatchNorm #%, no norm #%, so", table["BatchNorm"].mean(), table["none"].mean())
    says(text, "so # points (# to #)", *student(gain))
    _, *rows = rows_of("studies/speed/README.md", "updates | no norm")
    lengths, differences = {1000: table}, {}
    for steps, runs in best_runs("V5").groupby("steps"):
        lengths[steps] = 100 * runs.pivot(index="seed", columns="arm", values="accuracy")
    for (steps, none, norm, difference), (length, own) in zip(rows, lengths.items(), strict=True):
        assert int(steps.replace(",", "")) == length
        own = own.set_axis([name.lower() for name in own], axis=1)
        check(none, (own["none"].mean(),))
        check(norm, (own["batchnorm"].mean(),))
        differences[length] = student(own["batchnorm"] - own["none"])
        check(difference, differences[length])
    assert differences[10000][1] > 0.3
    page = text_of("docs/covariate_shift.md")
    gains = [differences[steps][0] for steps in (1000, 10000)]
    says(page, "After 1,000 updates the sigmoid MLP gains # points, after 10,000 #", *gains)
    runs = pd.read_parquet(EVIDENCE / "runs.parquet").query("asked_by.str.contains('V3:')")
    norm = runs["norm"].astype(str)
    reached = runs[norm == "batchnorm"].groupby("seed")["steps_to_0.97"].min()
    assert sorted(map(int, numbers(text, "after #, # and # updates"))) == sorted(reached)
    assert (runs.loc[norm == "none", "steps_to_0.97"] == math.inf).all()


def test_the_studies_name_how_many_runs_each_claim_has():
    """A run that was trained twice has two rows."""
    pages = " ".join(text_of(str(page)) for page in ROOT.glob("docs/studies/*/README.md"))
    told = dict(re.findall(r"\b([A-Z]\d+), [^(]*\((\d+) runs", pages))
    runs = pd.read_parquet(EVIDENCE / "runs.parquet", columns=["asked_by", "overrides", "seed", "lr"])
    asked = runs.pop("asked_by").astype(str)
    kept = {name: runs[asked.str.contains(rf"\b{name}:")] for name in told}
    assert told == {name: str(len(own.drop_duplicates())) for name, own in kept.items()}
    assert len(told) >= 13


LOOPS = json.loads((ROOT / "docs/data/bare_studies.json").read_text())
LOOPS_OF = {
    "N": "noise", "I": "initialization", "L": "layer_steps", "B": "parts_of_batchnorm", "V": "speed", "R": "residuals",
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_plain_loops_agree_with_the_studies(name):
    """Of the runs that are kept now, as the page of the study says."""
    (claim, *setting, arm), loop = name.split(), LOOPS[name]
    runs = best_runs(claim).query(f"arm == '{arm}'")
    runs = runs[runs["setting"].isin(setting) if setting else runs["steps"] == runs["steps"].max()]
    assert runs["accuracy"].tolist() == loop["kept"]
    ours, theirs = loop["bare"], loop["kept"]
    assert len(ours) == 3
    agree = min(ours) <= max(theirs) + 0.005 and min(theirs) <= max(ours) + 0.005
    assert agree == loop["agree"]
    page = (ROOT / "docs/studies" / LOOPS_OF[claim[0]] / "README.md").read_text()
    paragraphs = [" ".join(text.split()) for text in page.split("\n\n") if text.startswith("**By other code")]
    said = next((text for text in paragraphs if claim in text), paragraphs[0])
    assert f"`{arm}`" in said
    if not agree:
        numbers = (100 * value for span in (ours, theirs) for value in (min(span), max(span)))
        says(said, f"`{arm}` does not agree: loops reach # to #%, kept runs # to #%", *numbers)
    if found := re.search(rf"`{arm}` (?:reaches )?([\d.]+) to ([\d.]+)%", said):
        check(" ".join(found.groups()), (100 * min(ours), 100 * max(ours)))
    if "the same means to .2 points" in said:
        assert abs(np.mean(ours) - np.mean(theirs)) < 0.002


def test_what_noise_keeps_in_the_loops_of_the_narrow_resnet():
    means = {name: 100 * np.mean(LOOPS[name]["bare"]) for name in ("N7 none", "N9 batchnorm", "N9 noise")}
    none, norm, noise = means.values()
    says(text_of("docs/studies/noise/README.md"), "noise keeps # of # points", noise - none, norm - none)


def test_the_full_table_of_covariate_shift():
    runs = shift_runs()
    checked = 0
    for name, _, start, middle, cosine, accuracy, gain in rows_of("tables.md", "| shift in one update")[1:]:
        kind, norm = name.split(", ", 1)
        own = kind_of(runs, kind if kind in ("CNN", "ResNet") else f"{kind} MLP")
        rows = own[own["norm"] == NORMS[norm]]
        for column, text in zip(SHIFT, (start, middle, cosine), strict=True):
            check(text, (rows[column].mean(),))
        if accuracy:
            check(accuracy, (100 * rows["test_accuracy"].mean(),))
        if gain:
            check(gain, minus(own, NORMS[norm], "none"))
        checked += bool(gain)
    assert checked >= 4


def accuracy_agrees(text: str, rows: pd.DataFrame) -> bool:
    """`97.6%`, of the mean of all seeds. Where seeds differ by more, the page gives each in words."""
    return "in one seed" in text or agrees(text.strip("%"), 100 * rows["test_accuracy"].mean())


def depth_runs():
    runs = judging("depth").astype({"model.depth": int})
    return runs.groupby(["optimizer", "model.activation", "norm", "model.depth"])


def test_vanishing_gradients():
    by = depth_runs()
    table = rows_of("vanishing_gradients.md", "hidden layers")[1:]
    arms = [(how, norm) for how in ("sgd", "adamw") for norm in ("none", "layernorm", "batchnorm")]
    for name, ratio, *cells in table:
        depth, activation = name.lower().split(", ")
        rows = by.get_group(("sgd", activation, "none", int(depth)))
        assert ratio == "4e-20" or agrees(ratio, rows[RATIO].mean()), (name, rows[RATIO].mean())
        for (optimizer, norm), text in zip(arms, cells, strict=True):
            if text:
                rows = by.get_group((optimizer, activation, norm, int(depth)))
                assert accuracy_agrees(text, rows), (name, optimizer, norm, rows["test_accuracy"].mean())
    assert len(table) == 8


def test_the_full_tables_of_vanishing_gradients():
    by = depth_runs()
    sgd = rows_of("tables.md", "| hidden layers")[1:]
    for name, depth, rate, ratio, accuracy in sgd:
        activation, norm = name.split(", ")
        rows = by.get_group(("sgd", activation.lower(), NORMS[norm], int(depth)))
        assert rows["lr"].unique().tolist() == [float(rate.strip("*"))], name
        assert ratio == "4e-20" or agrees(ratio, rows[RATIO].mean()), (name, depth, rows[RATIO].mean())
        assert accuracy_agrees(accuracy, rows), (name, depth, rows["test_accuracy"].mean())
    assert len(sgd) > 30
    head, *table = rows_of("tables.md", "sigmoid, 2,000 updates")
    for name, *cells in table:
        found = re.fullmatch(r"(\d+) layers, (SGD|AdamW)", name)
        for norm, text in zip(head[1:], cells, strict=True) if found else ():
            rows = by.get_group((found[2].lower(), "sigmoid", NORMS[norm], int(found[1])))
            assert accuracy_agrees(text, rows), (name, norm, rows["test_accuracy"].mean())


def test_settings_that_have_learned():
    runs = judging("learned", "resnet")
    head, *table = rows_of("accuracy.md", "setting | aim")
    for name, _, *cells in table:
        if name in SETTINGS:
            own = runs[(runs["model"] == SETTINGS[name][0]) & (runs["data"] == SETTINGS[name][1])]
            means = own[own["norm.affine"] != "none"].groupby("norm")["test_accuracy"].mean()
            for norm, text in zip(head[2:], cells, strict=True):
                assert not text or agrees(text.strip("*%"), 100 * means[NORMS[norm]]), (name, norm, means)
    head, *table = rows_of("accuracy.md", "minus no norm")
    for name, *cells in table:
        if name in SETTINGS:
            own = runs[(runs["model"] == SETTINGS[name][0]) & (runs["data"] == SETTINGS[name][1])]
            for column, text in zip(head[1:], cells, strict=True):
                one, other = column.split(" minus ") if " minus " in column else (column, "no norm")
                if text:
                    check(text, minus(own, NORMS[one], NORMS[other]))


def test_batch_sizes():
    runs = judging("batches")
    for model in ("mlp", "cnn"):
        head, *table = rows_of("batch_size.md", f"{model.upper()}: batch size |")
        assert len(table) >= 6
        for size, *cells, gain in table:
            own = runs[(runs["model"] == model) & (runs["batch_size"] == size)]
            for norm, text in zip(head[1:], cells, strict=False):
                mean = 100 * own[own["norm"] == NORMS[norm]]["test_accuracy"].mean()
                assert text in ("", "undefined") or agrees(text, mean), (size, model, norm, mean)
            if gain:
                check(gain, minus(own, "batchnorm", "layernorm"))


CROSSINGS = {
    ("mlp", "layernorm"): "below LayerNorm, and it draws level at # (# to #)",
    ("cnn", "layernorm"): "points below at 2 and draws level at # (# to #)",
    ("mlp", "none"): "draws level with the network without a norm at # (# to #)",
    ("mlp", "groupnorm"): "and with GroupNorm at # (# to #)",
    ("cnn", "groupnorm"): "draws level with GroupNorm at # (# to #)",
    ("cnn", "none"): "and with no norm at # (# to #)",
}


@pytest.mark.parametrize(("model", "other"), CROSSINGS)
def test_where_batchnorm_draws_level(model, other):
    """On a line over log2 of the batch size, in each seed; the interval is Student's t over the logarithms."""
    places = []
    for _, own in judging("batches").query(f"model == '{model}'").groupby("seed"):
        own = own.astype({"batch_size": int})
        table = own.pivot_table(index="batch_size", columns="norm", values="test_accuracy").sort_index()
        gain = (table["batchnorm"] - table[other]).dropna()
        size = np.log2(gain.index.to_numpy(float))
        (at,) = np.flatnonzero((gain.to_numpy()[:-1] < 0) & (gain.to_numpy()[1:] >= 0))
        low, high = gain.iloc[at], gain.iloc[at + 1]
        places.append(size[at] - low * (size[at + 1] - size[at]) / (high - low))
    says(text_of("docs/batch_size.md"), CROSSINGS[model, other], *np.exp2(student(pd.Series(places))))


def test_the_answers_of_readme():
    text = text_of("README.md")
    (share,) = numbers(text, "the first one's gradient is 1/# of the last one's")
    assert float(share) == round(1 / depth_runs().get_group(("sgd", "sigmoid", "none", 8))[RATIO].mean(), -3)
    (gain,) = numbers(text, "gains # points in both seeds")
    assert all(agrees(gain, value) for value in minus(judging("resnet"), "batchnorm", "none"))
    small = judging("batches").query("model == 'mlp' and batch_size == '2'")
    mean, low, high = numbers(text, "is # points (# to #) below LayerNorm")
    values = minus(small, "layernorm", "batchnorm")
    assert (int(mean), int(low), int(high)) == tuple(round(value) for value in values), values
    small = judging("batches").query("model == 'cnn' and batch_size == '2'")
    says(text, "In a CNN it is # points (# to #) below", *minus(small, "layernorm", "batchnorm"))


def test_the_factors_of_running_text():
    text, by = text_of("docs/vanishing_gradients.md"), depth_runs()
    ratio = {norm: by.get_group(("sgd", "sigmoid", norm, 8))[RATIO].mean() for norm in ("none", "layernorm")}
    larger = "gradient is # times larger than without a norm, still only # of the last"
    says(text, larger, ratio["layernorm"] / ratio["none"], ratio["layernorm"])
    learned, best = (
        100 * by.get_group(("adamw", "sigmoid", norm, 8))["test_accuracy"].mean()
        for norm in ("none", "batchnorm")
    )
    says(text, "with AdamW (#%; # points behind BatchNorm", learned, best - learned)
    (derivative,) = numbers(text, "without a norm, and # with BatchNorm or LayerNorm")
    deviation, factor = numbers(text, "# in LayerNorm (over units), so #")
    assert agrees(factor, float(derivative) / float(deviation))
    (divides,) = (row for row in rows_of("tables.md", "| no norm") if row[0].startswith("divides by"))
    assert divides[2] == f"units, {deviation}"
    exploding = by.get_group(("sgd", "relu", "batchnorm", 32))[RATIO].mean()
    says(text, "the first is # times the last", exploding)


def test_what_warm_up_adds():
    """The rate of each arm has the best mean validation; the interval is a paired t over three seeds."""
    runs = runs_of("warmup")
    table = rows_of("batch_size.md", "layers | place")[1:]
    for depth, place, cold, warm, adds, *_ in table:
        best = {}
        for steps in (0, 90):
            own = runs[runs["setting"] == f"{place.split('-')[0].lower()}-{depth}-{steps}"]
            rate = own.groupby("lr")["val_accuracy"].mean().idxmax()
            best[steps] = 100 * own[own["lr"] == rate].set_index("seed")["test_accuracy"]
        assert agrees(cold.strip("%"), best[0].mean()), (depth, place, best)
        assert agrees(warm.strip("%"), best[90].mean()), (depth, place, best)
        gain = student((best[90] - best[0]).dropna())
        check(adds, gain)
        if (depth, place) == ("6", "Post-LN"):
            says(text_of("README.md"), "warm-up adds # points (# to #)", *gain)
    assert len(table) == 6
