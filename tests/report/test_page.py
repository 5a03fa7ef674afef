"""The report as a whole: everything it promises is there, in one file, and nothing is fetched."""

import re

import pandas as pd
import pytest
from fabricated import write_run, write_study
from PIL import Image

from normexp.cli.main import run
from normexp.report.figures import FIGURES


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    place, norms = tmp_path_factory.mktemp("study"), ("none", "batchnorm", "layernorm")
    study = write_study(place, norms, (2, 32), seeds=3, examples=500)
    write_run(study, "layernorm", 2, 3, status="diverged")
    assert run("report", [str(study), "--pdf"]) == 0
    return study / "report"


@pytest.mark.integration
def test_page_holds_its_figures_and_fetches_nothing(written):
    page = (written / "index.html").read_text()
    assert page.count("<figure>") == 8
    assert page.count("<img alt=") == 8
    assert page.count('src="data:image/png;base64,') == 8
    assert not re.findall(r"(?:src|href)=\"(?:https?:)?//", page)
    assert "<script" not in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    for target in re.findall(r'(?:href="|url\()#([^")]+)', page):
        assert target in ids, target


def test_every_figure_is_drawn_or_its_absence_explained(written):
    page = (written / "index.html").read_text()
    drawn = {path.stem for path in (written / "figures").glob("*.png")}
    assert drawn == {path.stem for path in (written / "figures").glob("*.pdf")}
    assert {"final", "learning_epoch", "gradient_by_depth", "activation_bands"} <= drawn
    assert "<b>Over the learning rate</b>: not shown, no arm was run with several" in page
    assert "<b>Dead units by layer</b>: not shown, dead_fraction was not recorded" in page


def test_figures_bear_command_hash_and_version(written):
    with Image.open(written / "figures" / "final.png") as picture:
        said = picture.info["Description"]
    assert re.search(r"python train\.py norm=.* configuration [0-9a-f]{8} .* normexp 0\.1\.0", said)


def test_tables_hold_the_numbers_of_the_page(written):
    table = pd.read_csv(written / "tables" / "comparison.csv")
    assert len(table) == 6
    assert len(pd.read_csv(written / "tables" / "runs.csv")) == 19
    text = (written / "report.md").read_text()
    assert "| batchnorm | " in text
    differences = r"Paired difference to none .*\| layernorm \| \S+ \[\S+, \S+\] \|"
    assert re.search(differences, text, re.S)
    assert "- 18 runs completed, 1 failed (a loss not finite" in text
    assert "- 1 run failed. Means are over the others" in text


@pytest.fixture
def first_figures(monkeypatch):
    """A report of the first section alone, for what does not depend on the others."""
    monkeypatch.setattr("normexp.report.page.FIGURES", dict(list(FIGURES.items())[:1]))


@pytest.mark.integration
def test_equal_runs_give_equal_files(written, first_figures, tmp_path):
    assert run("report", [str(written.parent), "--pdf", "--out", str(tmp_path)]) == 0
    for form in ("png", "pdf"):
        again, first = (folder / "figures" / f"final.{form}" for folder in (tmp_path, written))
        assert again.read_bytes() == first.read_bytes()


@pytest.mark.integration
def test_study_of_learning_rates_shows_where_arms_diverge(first_figures, tmp_path):
    for lr in (0.1, 1.0):
        write_study(tmp_path, ("none", "batchnorm"), (8,), seeds=2, lr=lr)
    write_run(tmp_path, "none", 8, 0, lr=9.0, status="diverged")
    assert run("report", [str(tmp_path)]) == 0
    assert (tmp_path / "report" / "figures" / "over_rate.png").exists()
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Test accuracy over learning rate" in page
    assert "A cross under the axis: runs of that arm failed there." in page


def test_damaged_file_is_one_line_and_nothing_is_written(tmp_path, capsys):
    write_study(tmp_path, ("none",), (8,), seeds=2)
    path = next(tmp_path.rglob("metrics.csv"))
    path.write_text(path.read_text()[:-9] + ",,")
    assert run("report", [str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert str(path) in error
    assert error.count("\n") == 1
    assert not (tmp_path / "report").exists()


def test_curves_are_of_the_metric_that_is_compared(tmp_path):
    study = write_study(tmp_path / "study", ("none", "batchnorm"), (8,), seeds=3)
    assert run("report", [str(study), "metric=val/loss"]) == 0
    page = (study / "report" / "index.html").read_text()
    assert "Validation loss by optimizer step" in page
    assert "Validation accuracy" not in page
