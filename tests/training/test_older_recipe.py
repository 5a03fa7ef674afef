"""A folder from before models had recipes: it loads."""

import json
import re

import pytest

from normexp.runs import load, load_summaries

PLAIN = ["recipe=plain", "max_epochs=1", "data.train_size=128"]
NEW = ("recipe", "recipe_changes", "chance_loss")


@pytest.fixture
def older(train):
    """The folder of a run as it was written before there were recipes."""
    _, folder = train(*PLAIN)
    summary = json.loads((folder / "summary.json").read_text())
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
