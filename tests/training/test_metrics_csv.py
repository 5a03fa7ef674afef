"""Rows of `metrics.csv`: exact values, no row twice and none lost after a resume."""

import csv

import pytest

from normexp.training.loggers.files import COLUMNS, MetricsCSV


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def values_of(path):
    return [float(row["value"]) for row in rows_of(path)]


def test_rows_read_back_exactly(tmp_path):
    logger = MetricsCSV(tmp_path / "metrics.csv")
    logger.clock = {"epoch": 0.5, "seconds": 1.25}
    logger.log_metrics({"train/loss": 0.1 + 0.2, "lr": 1e-30}, step=7)
    logger.close()
    rows = rows_of(tmp_path / "metrics.csv")
    assert tuple(rows[0]) == COLUMNS
    assert values_of(tmp_path / "metrics.csv") == [0.1 + 0.2, 1e-30]
    assert [(row["step"], row["epoch"], row["seconds"]) for row in rows] == [("7", "0.5", "1.25")] * 2


def test_resume_keeps_rows_until_the_checkpoint_and_drops_later_and_broken_ones(tmp_path):
    path = tmp_path / "metrics.csv"
    logger = MetricsCSV(path)
    for step in (10, 20):
        logger.log_metrics({"train/loss": step / 10}, step=step)
    (kept,) = logger.sizes().values()
    logger.log_metrics({"train/loss": 2.5}, step=20)  # of the same step, but after the checkpoint
    logger.log_metrics({"train/loss": 3.0}, step=30)
    logger.close()
    path.write_text(path.read_text() + "40,0,0,tr")  # killed while writing
    resumed = MetricsCSV(path, keep=kept)
    assert values_of(path) == [1.0, 2.0]  # on the disk at once: a kill right now loses nothing
    resumed.log_metrics({"train/loss": 99.0}, step=30)
    resumed.close()
    assert values_of(path) == [1.0, 2.0, 99.0]


def test_fresh_start_replaces_an_old_file(tmp_path):
    path = tmp_path / "metrics.csv"
    for value in (1.0, 2.0):
        logger = MetricsCSV(path)
        logger.log_metrics({"a": value}, step=1)
        logger.close()
    assert values_of(path) == [2.0]


def test_file_that_lost_rows_is_said_to_be_damaged(tmp_path):
    path = tmp_path / "metrics.csv"
    logger = MetricsCSV(path)
    logger.log_metrics({"a": 1.0, "b": 2.0}, step=1)
    (kept,) = logger.sizes().values()
    logger.close()
    path.write_text(path.read_text()[: kept // 2])
    with pytest.raises(ValueError, match=r"metrics.csv: damaged \(.+\); remove the folder"):
        MetricsCSV(path, keep=kept)
    path.unlink()
    with pytest.raises(ValueError, match=r"metrics.csv: damaged \(it is gone\)"):
        MetricsCSV(path, keep=kept)


def test_link_in_a_strangers_folder_is_not_followed(tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (tmp_path / "metrics.csv").symlink_to(mine)
    with pytest.raises(OSError, match="symbolic link"):
        MetricsCSV(tmp_path / "metrics.csv")
    assert mine.read_text() == "precious"
