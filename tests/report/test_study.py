"""What a study compares: its arms, its factor, its selection of runs, and its refusals."""

import itertools
import json
import re
import shutil

import pytest
from fabricated import STEPS, edit_summary, write_run, write_study
from refusals import refused

from normexp.report.finding import cautions, edges
from normexp.report.study import open_study
from normexp.report.tables import baselines, comparison, markdown
from normexp.runs import load


def test_factor_is_the_batch_size_and_what_a_norm_decides_makes_no_arm(tmp_path):
    study = open_study(write_study(tmp_path, ("layernorm", "none", "batchnorm"), (2, 8), seeds=2))
    assert study.x == "batch_size"
    assert study.levels == [2, 8]
    assert study.arms == ["none", "batchnorm", "layernorm"]  # norm.eps differs with the norm, not within it


@pytest.mark.parametrize("key", ["trainer.gradient_clip_val", "data.classes"])
def test_every_value_that_varies_within_an_arm_makes_arms(tmp_path, key):
    """Issue 26: runs clipped and unclipped were averaged as seeds of one arm, and half of them vanished."""
    for value, seeds in (("a", 3), ("b", 2)):
        write_study(tmp_path, ("none", "layernorm"), (8,), seeds=seeds, **{key: value})
    study = open_study(tmp_path)
    assert len(study.arms) == 4
    assert sorted(comparison(study, study.arms[0])["n"]) == [2, 2, 3, 3]


def test_runs_on_several_processes_are_no_seeds_of_one(tmp_path):
    for seed in range(4):
        folder = write_run(tmp_path, "batchnorm", 8, seed)
        execution = json.loads((folder / "summary.json").read_text())["execution"]
        edit_summary(folder, execution={**execution, "devices": 1 + seed // 2})
    study = open_study(tmp_path)
    assert (study.x, study.levels) == ("processes", [1, 2])
    assert list(comparison(study, "batchnorm")["n"]) == [2, 2]


def test_a_value_that_differs_with_the_norm_is_said(tmp_path):
    write_study(tmp_path, ("none",), (8,), seeds=2)
    write_study(tmp_path, ("layernorm",), (8,), seeds=2, **{"trainer.gradient_clip_val": 0.5})
    study = open_study(tmp_path)
    assert study.arms == ["none", "layernorm"]
    (text,) = [text for text in cautions(study) if "clip" in text]
    assert re.match(r"Gradient clip val goes with norm \(.*0\.5 with layernorm", text)


def test_data_may_depend_on_their_options_and_own_data_on_the_seed(tmp_path):
    for size in (10, 20):
        options = {"fingerprint": f"{size}" * 32, "data.train_size": size}
        write_study(tmp_path / "a", ("none",), (8,), seeds=2, **options)
    assert open_study(tmp_path / "a").levels == [10, 20]
    for norm, seed in itertools.product(("none", "layernorm"), range(3)):
        write_run(tmp_path / "b", norm, 8, seed, fingerprint=f"{seed}" * 64, **{"data.kind": "image"})
    assert open_study(tmp_path / "b").arms == ["none", "layernorm"]


def test_table_pairs_by_seed_and_bold_needs_the_interval(tmp_path):
    study = open_study(write_study(tmp_path, ("none", "batchnorm"), (2, 128), seeds=5, examples=4000))
    table = comparison(study).set_index(["arm", "level"])
    # the fabricated runs share their noise: differences are clear, although the intervals of the means overlap
    row = table.loc[("batchnorm", 128)]
    assert row["difference"] == pytest.approx((0.08 - 0.25 / 128) * 0.9817, abs=1e-3)
    assert 0 < row["difference_low"] < row["difference"] < row["difference_high"]
    assert row["best"]
    assert table.loc[("none", 2)]["best"]
    assert "| −4.4 [−4.8, −4.1] | +7.7 [+7.2, +8.1] |" in markdown(study, table.reset_index())


def other_name(root):
    write_run(root, "none", 32, 0, name="other")


def other_images(root):
    write_run(root, "none", 8, 2, fingerprint="b" * 64)


def copied(root):
    shutil.copytree(next(root.glob("mlp/none-bs8-s1-*")), root / "copy")


@pytest.mark.parametrize(
    ("spoil", "options", "message"),
    [
        (other_name, {}, "holds runs of 2 studies, other, study; choose one, name=other"),
        (other_images, {}, "saw several contents of the data"),
        (copied, {}, r"none-bs8-s1-\w+; remove one"),
        (None, {"metric": "test/f1"}, "metric=test/f1: recorded by none of these runs; the nearest are"),
        (None, {"only": {"nrm": "none"}}, r"nrm=none: no column of these runs; did you mean norm\?"),
        (None, {"better": "lower"}, "better=lower: of test/accuracy the higher is better; leave it out"),
    ],
)
def test_bad_input_is_one_line(tmp_path, spoil, options, message):
    study = write_study(tmp_path, ("none", "layernorm"), (8,), seeds=2, fingerprint="a" * 64)
    with refused("baseline=bn: no arm of this study; choose from none, layernorm"):
        baselines(open_study(study), "bn")
    if spoil:
        spoil(study)
    with refused(message):
        open_study(study, **options)


def test_samples_are_those_that_were_seen(tmp_path):
    """200 steps are 10 epochs. Of three batches each, but for the last of an epoch, which has two."""
    for seed, batches in ((0, 1), (1, 3)):
        write_run(tmp_path, "none", 8, seed, **{"trainer.accumulate_grad_batches": batches})
    for table in (open_study(tmp_path).metrics, load(tmp_path)):
        seen = table.drop_duplicates(["seed", "step"]).set_index("seed")["samples"]
        assert seen.loc[0].tolist() == [8 * step for step in STEPS]
        assert seen.loc[1].tolist() == [8 * 59 * step // 20 for step in STEPS]


def test_mixed_numerics_threads_and_versions_are_said_once(tmp_path):
    write_study(tmp_path, ("none", "layernorm"), (8,), seeds=2)
    assert not any("mix" in line for line in cautions(open_study(tmp_path)))
    for folder in tmp_path.glob("mlp/none-*"):
        summary = json.loads((folder / "summary.json").read_text())
        execution, versions = summary["execution"] | {"threads": 2}, summary["versions"] | {"torch": "2.11.0"}
        edit_summary(folder, numerics=2, execution=execution, versions=versions)
    said = cautions(open_study(tmp_path))
    for what in (
        "versions of torch (2.11.0, 2.15.0)",
        "versions of the arithmetic (1, 2)",
        "numbers of threads (1, 2)",
    ):
        assert said.count(f"The runs mix {what}: one seed then gives other last digits.") == 1


def test_a_learning_rate_is_tuned_and_its_edge_is_said(tmp_path):
    """`none` is best in the middle, `batchnorm` at the largest rate tried."""
    for norm, scores in {"none": (0.7, 0.9, 0.8), "batchnorm": (0.6, 0.7, 0.95)}.items():
        for rate, score in zip((0.01, 0.1, 1.0), scores, strict=True):
            for seed in range(2):
                run = write_run(tmp_path, norm, 8, seed, lr=rate)
                found = {f"{split}/accuracy": score + seed / 100 for split in ("train", "val", "test")}
                edit_summary(run, metrics=found | {"test/loss": 1 - score})
    study = open_study(tmp_path)
    assert (study.x, study.rate_varies, study.arms) == (None, True, ["none", "batchnorm"])
    assert dict(study.chosen.groupby("arm")["lr"].first()) == {"none": 0.1, "batchnorm": 1.0}
    (sentence,) = edges(study)
    assert sentence == "The best learning rate of batchnorm, 1, lies at the edge of those tried."
    assert sentence in cautions(study)


def test_each_choice_has_its_own_baseline(tmp_path):
    for activation in ("relu", "tanh"):
        for norm in ("none", "batchnorm"):
            for seed in range(3):
                write_run(tmp_path, norm, 8, seed, **{"model.activation": activation})
    study = open_study(tmp_path)
    found = baselines(study)
    assert found["batchnorm · relu"] == found["none · relu"] == "none · relu"
    assert found["batchnorm · tanh"] == "none · tanh"
    assert set(baselines(study, "none · relu").values()) == {"none · relu"}


def test_an_accuracy_that_is_in_percent_is_shown_as_it_is(tmp_path):
    folder = write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=3)
    shares = open_study(folder, "val/accuracy")
    for summary in folder.rglob("summary.json"):
        metrics = json.loads(summary.read_text())["metrics"]
        edit_summary(summary.parent, metrics=metrics | {"val/accuracy": 100 * metrics["val/accuracy"]})
    percents = open_study(folder, "val/accuracy")
    assert (shares.of_shares, percents.of_shares) == (True, False)
    assert markdown(percents, comparison(percents)) == markdown(shares, comparison(shares))
