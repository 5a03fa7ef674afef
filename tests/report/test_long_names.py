"""Names of any length leave room for the curves."""

import warnings

import pytest
from fabricated import write_run

from normexp.report.drawing import Drawing
from normexp.report.figures import FIGURES
from normexp.report.study import Study, open_study
from normexp.report.style import Style, drawing_style


@pytest.mark.integration
@pytest.mark.parametrize(
    "levels", [[8], pytest.param([8, 32], marks=pytest.mark.slow), [4, 8, 16]], ids=["1", "2", "3"]
)
@pytest.mark.parametrize("position", ["post_activation", "x" * 300])
def test_figures_have_room_for_their_curves(tmp_path, levels, position):
    for place in ("pre_activation", position):
        for batch_size in levels:
            for seed in (0, 1):
                write_run(tmp_path, "layernorm", batch_size, seed, **{"model.norm_position": place})
    study = open_study(tmp_path)
    assert len(study.arms) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib's "axes sizes collapsed to zero"
        with drawing_style():
            lay_out(study)


def lay_out(study: Study) -> None:
    """Lay out every figure, as saving does."""
    style = Style(study.arms)
    drawings = [item for makers in FIGURES.values() for make in makers for item in make(study, style)]
    for item in drawings:
        if isinstance(item, Drawing):
            item.figure.get_layout_engine().execute(item.figure)
