"""The sentence that a report begins with."""

import json
import re

import numpy as np
import pytest
from fabricated import edit_summary, write_run, write_study
from scipy import stats

from normexp.report.finding import cautions, finding
from normexp.report.page import facts, runs_text
from normexp.report.study import Study, open_study
from normexp.report.tables import cells_of, comparison, how_to_read, in_words


def said(study: Study, baseline: str = "none") -> str:
    return finding(study, comparison(study, baseline))


def change(folder, **metrics) -> None:
    summary = json.loads((folder / "summary.json").read_text())
    edit_summary(folder, metrics={**summary["metrics"], **metrics}, chance_loss=2.3)


def with_accuracies(root, of) -> None:
    """Each run's test accuracy, from its norm and its seed."""
    for folder in root.glob("mlp/*"):
        norm, _, seed, _ = folder.name.split("-")
        change(folder, **{"test/accuracy": of(norm, int(seed[1:]))})


def test_intervals_hold_for_all_differences_together(tmp_path):
    study = open_study(write_study(tmp_path, ("none", "batchnorm", "dyt"), (2, 32), seeds=4))
    assert len(study.differences) == 6
    rng = np.random.default_rng(0)
    values = {arm: rng.normal(0.9, 0.01, 4) for arm in study.arms}
    with_accuracies(tmp_path, lambda norm, seed: values[norm][seed])
    study = open_study(tmp_path)
    row = study.differences.iloc[0]
    each = study.points[row["first"], 2].values - study.points[row["second"], 2].values
    low, high = stats.t.interval(1 - 0.05 / 6, 3, loc=each.mean(), scale=stats.sem(each))
    assert [row["low"], row["high"]] == pytest.approx([low, high])
    # One interval in table and headline.
    table = comparison(study, "none").set_index(["arm", "level"])
    shown = table.loc[("batchnorm", 2), ["difference_low", "difference_high"]]
    assert sorted(abs(shown)) == pytest.approx(sorted([abs(low), abs(high)]))


def test_fewer_than_five_seeds_rank_nothing_and_say_so(tmp_path):
    study = open_study(write_study(tmp_path, ("none", "batchnorm"), (2, 32), seeds=4, examples=500))
    table = comparison(study, "none")
    said = finding(study, table)
    assert said.startswith("In these runs batchnorm at")
    assert "With 4 seeds no arms are ranked; 5 are needed." in said
    assert not table["best"].any()
    assert "Bold" not in how_to_read(study, table)


def test_five_seeds_rank_and_the_headline_has_the_numbers_of_the_table(tmp_path):
    study = open_study(write_study(tmp_path, ("none", "layernorm"), (32,), seeds=5, examples=5000))
    table = comparison(study, "none")
    text = finding(study, table)
    assert text.startswith("layernorm has a test accuracy ")
    assert "paired over 5 seeds and 5000 test examples" in text
    row = table.set_index("arm").loc["layernorm"]
    assert row["best"]
    assert "Bold" in how_to_read(study, table)
    said = re.search(r"accuracy (\S+) points higher .* \((\S+) to (\S+);", text)
    size, low, high = map(float, said.groups())
    shown = [100 * row[name] for name in ("difference", "difference_low", "difference_high")]
    assert [size, low, high] == pytest.approx(shown, abs=0.051)


def test_norms_are_compared_in_each_network_and_networks_are_not(tmp_path):
    """A study of norms and networks asks for the norm: the network that learns more slowly is no finding."""
    random = np.random.default_rng(0)
    for model, base in (("mlp", 0.9), ("cnn", 0.3)):
        for norm, more in (("none", 0.0), ("batchnorm", 0.05)):
            for seed in range(5):
                folder = write_run(tmp_path, norm, 8, seed, **{"model.name": model})
                change(folder, **{"test/accuracy": base + more + random.normal(0, 0.001)})
    study = open_study(tmp_path)
    pairs = {tuple(pair) for pair in study.differences[["first", "second"]].to_numpy()}
    assert pairs == {(f"none · {model}", f"batchnorm · {model}") for model in ("mlp", "cnn")}
    table = comparison(study)
    assert set(table[table["best"]]["arm"]) == {"batchnorm · mlp", "batchnorm · cnn"}
    assert re.match(r"batchnorm · \w+ has a test accuracy \S+ points higher than none", finding(study, table))
    only = open_study(tmp_path, only={"norm": "none"})  # the network is the question
    assert [*only.differences[["first", "second"]].to_numpy()[0]] == ["none · cnn", "none · mlp"]


def test_two_seeds_give_both_values_in_sentence_and_table(tmp_path):
    write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=2, examples=100)
    with_accuracies(tmp_path, lambda norm, seed: 0.8 + (norm == "batchnorm") * (0.055, 0.057)[seed])
    study = open_study(tmp_path)
    text = said(study)
    assert "test accuracy of batchnorm" in text
    assert "minus that of none is +5.5 and +5.7 points in 2 seeds" in text
    assert "95%" not in text
    table = comparison(study, "none")
    assert "each in brackets" in how_to_read(study, table)
    (cell,) = cells_of(study, table)["batchnorm"]
    assert (in_words(cell), cell["difference"]) == ("85.6 (85.5, 85.7)", "+5.5, +5.7")


def test_equal_seeds_leave_what_the_test_examples_leave(tmp_path):
    """Issue 26: two seeds with equal results left `differences of up to 0.0 points`."""
    write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=5, examples=100)
    first = next(tmp_path.glob("mlp/*-s0-*"))
    for folder in tmp_path.glob("mlp/*"):
        (folder / "test_examples.npz").write_bytes((first / "test_examples.npz").read_bytes())
        edit_summary(folder, metrics=json.loads((first / "summary.json").read_text())["metrics"])
    possible = float(re.search(r"up to (\S+) points", said(open_study(tmp_path)))[1])
    assert 1 < possible < 20


@pytest.mark.parametrize(("options", "epochs"), [({}, "10"), ({"early_stopping": 2}, "at most 10")])
def test_runs_that_stop_early_say_so(tmp_path, options, epochs):
    study = open_study(write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=3, **options))
    assert f"epochs {epochs}" in facts(study)
    early = [
        line for line in cautions(study) if line.startswith("Runs may stop early, here after 200 steps; ")
    ]
    assert len(early) == len(options)


def test_an_arm_at_chance_is_said_with_its_recipe(tmp_path):
    write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=5, examples=500)
    for folder in tmp_path.glob("mlp/*"):
        change(folder, **{"train/loss": 2.29 if "none" in folder.name else 0.2})
    study = open_study(tmp_path)
    found = [line for line in cautions(study) if "guessing" in line]
    assert found == ["5 of 5 runs of none end with a training loss near that of guessing."]


def test_a_final_loss_far_above_guessing_is_a_failure_that_is_counted(tmp_path):
    """Issue 26: a finite loss of 2e8 was completed and entered means."""
    write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=5)
    change(next(tmp_path.glob("mlp/none-bs8-s2-*")), **{"train/loss": 2e8, "test/accuracy": 0.0})
    study = open_study(tmp_path)
    row = comparison(study, "none").set_index("arm").loc["none"]
    assert (row["runs"], row["failed"], row["n"]) == (5, 1, 4)
    assert row["mean"] > 0.8
    assert "1 run failed. Means are over the others, so they flatter the arms that fail." in cautions(study)
    assert runs_text(study).startswith("9 runs completed, 1 failed (a loss not finite, or a final training ")


def test_no_interval_of_values_below_0_ends_at_0(tmp_path):
    rewards = np.random.default_rng(0).normal(-3, 0.1, 5)
    for folder, reward in zip(write_study(tmp_path, ("none",), (2,), 5).glob("mlp/*"), rewards, strict=True):
        change(folder, **{"test/reward": reward, "test/mse": 1e-5 * (reward + 4)})
    for name, values in {"test/reward": rewards, "test/mse": 1e-5 * (rewards + 4)}.items():
        row = comparison(open_study(tmp_path, name)).iloc[0]
        low, high = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
        assert [row["low"], row["high"]] == pytest.approx([low, high])
    study = open_study(tmp_path, "test/mse")
    assert cells_of(study, comparison(study))["none"][0]["value"] == f"{values.mean():.2g}".replace("-", "−")


def test_the_sentence_has_the_number_of_seeds_of_its_own_pair(tmp_path):
    write_study(tmp_path, ("none", "batchnorm"), (2,), 7)
    write_study(tmp_path / "more", ("layernorm",), (2,), 5)
    with_accuracies(tmp_path / "more", lambda norm, seed: 0.98 + 0.002 * seed)
    assert re.match(r"layernorm has a test accuracy .* paired over 5 seeds", said(open_study(tmp_path)))


def test_where_every_run_failed_no_mean_over_seeds_is_said(tmp_path):
    study = open_study(write_study(tmp_path, ("none", "batchnorm"), (2,), 3, status="diverged"))
    assert how_to_read(study, comparison(study)) == "Test accuracy in %: no run has a value."
