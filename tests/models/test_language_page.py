"""docs/language_models.md and its drawing say what the code does."""

import json
import re
from pathlib import Path

import pytest
import yaml
from small_models import CONFIGS
from torch import nn

from normexp.models.transformer_stack import Residual

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "language_models.md").read_text()
PRESETS = sorted(path.stem for path in (CONFIGS / "preset").glob("*.yaml"))


# As docs/images/blocks.svg shows them: the branch from below, the stream after the sum, whether the stream is scaled.
PLACES = {
    "pre": ("N f", "", False),
    "post": ("f", "N", False),
    "sandwich": ("N f N'", "", False),
    "output": ("f N", "", False),
    "keel": ("N f", "N'", True),
}


@pytest.mark.parametrize("position", PLACES)
def test_drawing_has_the_norms_where_the_model_has_them(position):
    norms = iter(["N", "N'"])

    def norm(size, channel_dim, layer):
        layer = nn.Identity()
        layer.name = next(norms)
        return layer

    options = {"norm_position": position, "k": 1, "depth": 3, "depth_scaling": False, "dropout": 0.0}
    residual = Residual(nn.Identity(), norm, 4, **options)
    before, after, of_sum = (getattr(place, "name", None) for place in residual.places)
    branch, stream, factor = PLACES[position]
    assert branch.split() == [name for name in (before, "f", after) if name]
    assert stream.split() == [name for name in (of_sum,) if name]
    assert factor == (residual.share is not None)


def test_page_shows_the_drawing():
    assert "images/blocks.svg" in PAGE
    assert (DOCS / "images" / "blocks.svg").exists()


def test_page_names_each_option_and_each_value_of_its_row():
    node = yaml.safe_load((CONFIGS / "model" / "gpt.yaml").read_text())
    plain = {"defaults", "depth", "width", "heads", "dropout", "weight_norm", "_target_", "_partial_"}
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE, re.M))
    assert rows.keys() >= node.keys() - plain
    for key in node.keys() - plain:
        value = json.dumps(node[key]).strip('"')
        assert re.search(rf"\*\*{value}\*\*", rows[key]), f"{key}: the default {value} stands in bold"


def test_page_shows_what_each_preset_sets():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE, re.M))
    for name in PRESETS:
        preset = yaml.safe_load((CONFIGS / "preset" / f"{name}.yaml").read_text())
        for key, value in preset["model"].items():
            assert f"{key}={json.dumps(value)}".replace('"', "") in rows[name].replace("`", ""), (name, key)
