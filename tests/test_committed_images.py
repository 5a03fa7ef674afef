"""The images of README and docs show what the program draws today."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from committed import CLAIMS, ROOT, judged
from matplotlib.image import imread

from normexp.claims.evidence.table import EVIDENCE, values_of
from normexp.claims.pages.figure import draw

IMAGES = ROOT / "docs" / "images"
FINDINGS = sorted(path.stem.removeprefix("finding_") for path in IMAGES.glob("finding_*.png"))
NEAR = 0.01  # of the range of a color, in the mean: another processor moves a line by a pixel


def difference(drawn: Path, committed: Path) -> float:
    """The mean difference of two images; 1 if they differ in size."""
    one, other = imread(drawn)[..., :3], imread(committed)[..., :3]
    return float(np.abs(one - other).mean()) if one.shape == other.shape else 1.0


def test_a_difference_is_seen(tmp_path):
    committed = IMAGES / f"finding_{FINDINGS[0]}.png"
    assert difference(committed, committed) == 0
    assert difference(IMAGES / f"finding_{FINDINGS[1]}.png", committed) > NEAR


@pytest.mark.integration
@pytest.mark.parametrize("name", FINDINGS)
def test_findings_are_drawn_as_committed(name, tmp_path):
    verdict = judged(name)
    values = pd.DataFrame() if verdict.counts else values_of(EVIDENCE, CLAIMS[name])
    draw(values, verdict, tmp_path / "f.png")
    assert difference(tmp_path / "f.png", IMAGES / f"finding_{name}.png") < NEAR
