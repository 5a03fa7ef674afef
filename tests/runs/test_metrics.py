"""A metric by its name: which way is better, and its final values in a table of runs."""

import numpy as np
import pytest
from fabricated import write_study
from refusals import refused

from normexp.report.study import open_study
from normexp.runs import load, load_summaries
from normexp.runs.metrics import bounds_of, higher_is_better, with_metric

HIGHER = {"val/mAP": True, "val/top-1-acc": True, "R2": True, "test/accuracy_reestimated": True}
HIGHER |= {"test/error": False, "val_loss": False}


@pytest.mark.parametrize(("name", "higher"), HIGHER.items())
def test_the_last_word_of_a_name_says_which_way_is_better(name, higher):
    assert higher_is_better(name) is higher
    ways = ("higher", "lower") if higher else ("lower", "higher")
    assert higher_is_better(name, ways[0]) is higher
    with pytest.raises(
        ValueError, match=f"^better={ways[1]}: of {name} the {ways[0]} is better; leave it out"
    ):
        higher_is_better(name, ways[1])
    assert higher_is_better("quality", "higher") is True
    assert higher_is_better("survived/steps", "higher") is True
    with refused("better=max: write higher or lower"):
        higher_is_better(name, "max")


@pytest.mark.parametrize(
    "name",
    ["quality", "loss/quality", "lossy", "neg_log_loss", "val/-loss", "1-accuracy", "steps_to_accuracy"],
)
def test_a_name_that_does_not_say_it_is_asked(name):
    with refused(f"metric={name}: which way is better. write better=higher"):
        higher_is_better(name)
    assert higher_is_better(name, "higher") is True


INF = float("inf")
BOUNDS = [
    ("test/error", [0.0, 1.0], (0, 1)), ("val/acc", [0.5], (0, 1)), ("val/loss", [0.0, 7.0], (0, INF)),
    ("bleu", [3.0], (-INF, INF)), ("quality", [0.5], (-INF, INF)), ("neg_log_loss", [0.5], (-INF, INF)),
    ("val/loss", [3.0, -1.0], (-INF, INF)), ("error", [50.0], (0, INF)), ("error", [-0.1, 0.5], (-INF, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "values", "bounds"), BOUNDS)
def test_the_last_word_bounds_values_that_keep_to_it(name, values, bounds):
    assert bounds_of(name, np.array(values)) == bounds


def test_a_final_metric_an_error_and_a_logged_one(tmp_path):
    folder = write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=3)
    table = load_summaries(folder)
    assert with_metric(table, folder, "test/loss") is table
    errors = with_metric(table, folder, "test/error")["test/error"]
    assert errors.tolist() == (1 - table["test/accuracy"]).tolist()
    last = load(folder, metrics=["val/loss"]).groupby("run", observed=True)["value"].last()
    assert np.array_equal(with_metric(table, folder, "val/loss")["val/loss"], last[table["run"]])
    assert not open_study(folder, "val/loss").higher_is_better
    names = sorted(load(folder)["metric"].cat.categories)
    layer = next(name for name in names if name.startswith("gradient_norm/"))
    assert not open_study(folder, layer, better="lower").higher_is_better
    with refused("metric=mAP: recorded by none") as caught:
        with_metric(table, folder, "mAP")
    assert str(caught.value).endswith(f"the nearest are {', '.join(names[:10])}")
    assert len(names) > 10


def test_the_last_logged_value_is_the_last_also_if_it_is_no_number(tmp_path):
    folder = write_study(tmp_path, ("none",), (8,), seeds=3)
    metrics = next(folder.glob("mlp/*-s1-*")) / "metrics.csv"
    lines = metrics.read_text().splitlines()
    last = max(place for place, line in enumerate(lines) if ",val/loss," in line)
    lines[last] = lines[last].rpartition(",")[0] + ",nan"
    metrics.write_text("\n".join(lines) + "\n")
    table = load_summaries(folder)
    losses = with_metric(table, folder, "val/loss").set_index("seed")["val/loss"]
    assert losses.isna().to_dict() == {0: False, 1: True, 2: False}
