"""A folder from before models had recipes: it loads, says so, and the command for today's equal of it finds it."""

import json
import re

import pytest

from normexp.cli.report import evaluate_runs
from normexp.report.finding import cautions
from normexp.report.study import open_study
from normexp.runs import load, load_summaries

PLAIN = ["recipe=plain", "max_epochs=1", "data.train_size=128"]
NEW = ("recipe", "recipe_changes", "chance_loss")


@pytest.fixture
def older(train):
    """The folder of a run as it was written before there were recipes."""
    _, folder = train(*PLAIN)
    summary = json.loads((folder / "summary.json").read_text())
    del summary["digests"]
    for node in (summary, summary["config"], summary["choices"]):
        for key in NEW:
            node.pop(key, None)
    (folder / "summary.json").write_text(json.dumps(summary))
    saved = folder / ".hydra" / "config.yaml"
    saved.write_text(re.sub(r"^recipe: .*\n", "", saved.read_text(), flags=re.M))
    assert not re.search(r"^recipe:", saved.read_text(), re.M)
    return folder


def test_it_loads_and_its_recipe_is_older(older):
    assert load_summaries(older)["recipe"].tolist() == ["older"]
    assert "recipe" not in load(older), "a recipe is no arm: its values tell runs apart"


def test_the_report_says_so(older, train):
    train(*PLAIN, "seed=1")
    found = " ".join(cautions(open_study(older.parents[1])))
    assert "1 run was trained before models had recipes" in found


def test_evaluating_it_says_so(older, capsys):
    capsys.readouterr()
    assert evaluate_runs([str(older)]) == 0
    assert "trained before models had recipes" in capsys.readouterr().out


def test_todays_plain_run_is_the_same_one_and_the_models_recipe_is_another(older, train, capsys):
    capsys.readouterr()
    _, again = train(*PLAIN)
    assert again == older
    assert "This run is finished" in capsys.readouterr().out
    _, other = train("max_epochs=1", "data.train_size=128")
    assert other != older
