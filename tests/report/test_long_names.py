"""Names of any length leave room for the curves, on a page and on a phone."""

import warnings

import pytest
from fabricated import write_run

from normexp.report.study import open_study
from normexp.report.write import write_report


@pytest.mark.parametrize("levels", [[8], [8, 32], [4, 8, 16]], ids=len)
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
        write_report(study, tmp_path / "report")
