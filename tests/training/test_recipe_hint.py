"""The hint on a finished run whose recipe is likely at fault; a good run gets none."""

import json
import math
import re
from pathlib import Path

import pytest

from normexp.training.recipe_hint import hint, recorded, training_losses

CHANCE = math.log(10)


def summary_of(**changes) -> dict:
    base = {
        "status": "completed", "steps": 340, "epochs": 20.0, "chance_loss": CHANCE, "recipe_changes": [],
        "metrics": {"train/loss": 0.01}, "convergence": {"divergence_step": None},
        "choices": {"model": "resnet"},
        "config": {"lr": 0.1, "max_epochs": 20, "max_steps": None, "recipe": "resnet"},
    }  # fmt: skip
    return base | changes


def test_a_smaller_rate_is_tried_where_the_optimizer_takes_it(tmp_path):
    config = {**summary_of()["config"], "optimizer": {"lr": 0.02}}
    summary = summary_of(metrics={"train/loss": 2.29}, config=config)
    assert hint(summary, folder_with(tmp_path, [6.0, 2.3])).endswith("; try optimizer.lr=0.002")


def folder_with(path: Path, losses: list[float], every: int = 20) -> Path:
    rows = [f"{every * (i + 1)},0,0,train/loss,{loss!r}\n" for i, loss in enumerate(losses)]
    (path / "metrics.csv").write_text(
        "step,epoch,seconds,metric,value\n" + "1,0,0,val/loss,99\n" + "".join(rows)
    )
    return path


GOOD = [2.5, 1.2, 0.6, 0.3, 0.35, 0.1, 0.05, 0.02, 0.01]


@pytest.mark.parametrize(
    ("losses", "changes", "expected"),
    [
        (GOOD, {}, None),
        ([2.3, 0.5, 0.2, 0.5, 0.1], {}, None),  # a rise of 0.3 is the noise of batches
        ([3.3, 1.0, 0.1], {}, None),  # a start above chance is that of a network without norm
        ([2.3, 0.5, 0.2, 1.0, 0.1], {}, "its loss jumped by 0.80 from 0.20, at the edge of stability; try lr=0.01"),
        ([2.3, 4.0, 0.2, 0.1], {}, "its loss rose to 4.00"),
        ([2.3, 0.5, 0.1, 0.4], {}, "ends at 0.40, far above its lowest, 0.10"),
        (GOOD, {"metrics": {"train/loss": 2.29}}, "ends near chance .* guessing has 2.30.*; try max_epochs=60"),
        ([6.0, 2.3], {"metrics": {"train/loss": 2.29}}, "ends near chance .*; try lr=0.01$"),
        (GOOD, {"steps": 0}, None),
        (GOOD, {"chance_loss": None, "metrics": {"train/loss": 2.3}}, None),  # an older run
    ],
)  # fmt: skip
def test_what_is_said_of_a_training_curve(tmp_path, losses, changes, expected):
    found = hint(summary_of(**changes), folder_with(tmp_path, losses))
    if expected is None:
        assert found is None
    else:
        assert found.startswith("likely the recipe, not the norm: it")
        assert re.search(expected, found)


def diverged(step: int, **changes) -> str:
    return hint(
        summary_of(
            status="diverged", steps=step, epochs=step / 17, convergence={"divergence_step": step}, **changes
        ),
        None,
    )


def test_a_run_that_diverged_says_when_and_names_what_to_try():
    assert diverged(13) == (
        "likely the recipe, not the norm: it diverged in its first epoch, at step 13; "
        "try lr=0.01 or a longer warm-up, schedule.warmup_steps=68"
    )
    assert "it diverged at step 200" in diverged(200)
    assert "first epoch" in diverged(17)
    assert "first epoch" not in diverged(18)


@pytest.mark.parametrize(
    ("recipe", "changed", "ending"),
    [
        ("plain", [], " or recipe=resnet"),
        (None, None, " or recipe=resnet"),  # from before there were recipes
        ("resnet", ["optimizer=sgd", "lr=1"], " or recipe=resnet without optimizer=sgd lr=1"),
        ("resnet", [], "warmup_steps=68"),
    ],
)
def test_the_way_back_to_the_recipe_is_named_where_the_run_left_it(recipe, changed, ending):
    config = {"lr": 0.1, "max_epochs": 20, "max_steps": None, "recipe": recipe}
    assert diverged(13, config=config, recipe_changes=changed).endswith(ending)


def test_losses_are_averaged_over_steps_however_often_they_were_logged(tmp_path):
    values = [3.0, 1.0] * 20  # of single steps
    assert training_losses(recorded(folder_with(tmp_path, values, every=1) / "metrics.csv")) == [2.0, 2.0]
    assert training_losses(recorded(folder_with(tmp_path, [3.0, math.nan, 1.0]) / "metrics.csv")) == [
        3.0,
        1.0,
    ]
    assert training_losses(recorded(tmp_path / "absent.csv")) == []


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["optimizer=sgd", "lr=1e30", "norm=none"], "diverged in its first epoch"),
        (["lr=1e-7"], "near chance"),
        (["lr=0.01"], ""),
    ],
)
def test_the_last_lines_of_a_run_warn(train, capsys, overrides, expected):
    summary, folder = train(*overrides)
    shown = capsys.readouterr().out.replace("\n", " ")
    assert ("likely the recipe, not the norm" in shown) == bool(expected)
    assert expected in shown
    recorded = json.loads((folder / "summary.json").read_text())
    assert recorded["chance_loss"] == pytest.approx(CHANCE, abs=1e-3)  # the ten digits are nearly balanced
    assert summary["choices"]["recipe"] == "mlp"
    assert {change.partition("=")[0] for change in recorded["recipe_changes"]} >= {"lr"}
