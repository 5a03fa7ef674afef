"""A run says by which code it was computed."""

import json
import sys

import pytest
import torch

from normexp.config.code import _digest, changed, sources

CONFIG = {
    "norm": {"_target_": "normexp.norms.RMSNorm", "eps": 1e-5},
    "optimizer": {"_target_": "torch.optim.SGD"},
    "trainer": {"_target_": "pytorch_lightning.Trainer"},
    "monitor": {"a": {"_target_": "own_code.Watch"}, "b": None},
}


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    path = tmp_path / "own_code.py"
    path.write_text("class Watch:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    _digest.cache_clear()
    yield path
    sys.modules.pop("own_code", None)
    _digest.cache_clear()


def test_files_of_the_project_and_ones_own_are_recorded(own_code):
    assert list(sources(CONFIG)) == ["normexp.norms.RMSNorm", "own_code.Watch"]


@pytest.mark.parametrize(
    "same", ["# a comment\nclass Watch:\n\n    pass\n", 'class Watch:\n    """Said."""\n']
)
def test_comments_and_layout_do_not_count(own_code, same):
    recorded = sources(CONFIG)
    own_code.write_text(same)
    _digest.cache_clear()
    assert changed(CONFIG, recorded) == []


def test_changed_file_is_named(own_code):
    recorded = sources(CONFIG)
    assert changed(CONFIG, recorded) == []
    own_code.write_text("class Watch:\n    every = 1\n")
    _digest.cache_clear()
    assert changed(CONFIG, recorded) == ["own_code.Watch"]


def test_nothing_is_said_of_runs_that_recorded_nothing(own_code):
    assert changed(CONFIG, None) == changed(CONFIG, {}) == []


def test_run_records_its_sources(train):
    summary, _ = train("norm=rmsnorm", "max_steps=0")
    assert summary["sources"] == sources(summary["config"])
    assert "normexp.norms.RMSNorm" in summary["sources"]
    assert torch.__name__ not in {name.split(".")[0] for name in summary["sources"]}


def test_finished_run_of_other_code_says_so(train, make_parts, tmp_path, capsys):
    summary, folder = train("norm=rmsnorm", "max_steps=0")
    other = summary | {"sources": {"normexp.norms.RMSNorm": "of old"}}
    (folder / "summary.json").write_text(json.dumps(other))
    train("norm=rmsnorm", "max_steps=0")
    assert (
        "finished with another version of normexp.norms.RMSNorm; name=<another> trains"
        in capsys.readouterr().out
    )
