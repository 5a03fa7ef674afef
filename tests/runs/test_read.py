"""What a run's files say twice must agree: files that are another's, older, half or edited are refused in one line."""

import json
import shutil

import pytest
from fabricated import edit_summary, write_run

from normexp.runs import load, load_summaries, read_run


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path, "batchnorm", 8, 0, examples=200)


@pytest.fixture
def other(tmp_path):
    return write_run(tmp_path / "elsewhere", "none", 32, 1, examples=200, **{"model.depth": 5})


def test_whole_run_is_read_with_its_curves_and_test_examples(run):
    found = read_run(run)
    assert found.summary["metrics"]["test/accuracy"] == found.examples.right.mean()
    assert found.metrics["step"].max() == 200
    assert read_run(run.parent) is None


def half(run):
    text = (run / "metrics.csv").read_text()
    (run / "metrics.csv").write_text(text[: text.index("\n", len(text) // 2) + 1])


def nested(group, **changes):
    def edit(run):
        edit_summary(run, **{group: {**json.loads((run / "summary.json").read_text())[group], **changes}})

    return edit


EDITS = {
    "half of metrics.csv": half,
    "test accuracy": nested("metrics", **{"test/accuracy": 0.5}),
    "test loss": nested("metrics", **{"test/loss": 0.5}),
    "best": nested("convergence", best=0.99),
    "auc": nested("convergence", auc=0.2),
    "steps to a target": nested("convergence", **{"steps_to_0.5": 20}),
    "never reached": nested("convergence", **{"epochs_to_0.5": None}),
    "a rate": nested("config", lr=0.3),
    "a trainer's option": nested("config", trainer={"gradient_clip_val": 1.0}),
    "hash": lambda run: edit_summary(run, hash="0" * 64),
    "fingerprint": lambda run: edit_summary(run, fingerprint="0" * 64),
    "status": lambda run: edit_summary(run, status="diverged"),
    "steps": lambda run: edit_summary(run, steps=100),
    "divergence": nested("convergence", divergence_step=40),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_what_the_files_beside_it_contradict_is_refused_by_every_reader(run, edit):
    """Issue 26: an edited summary flipped a verdict, and half a file gave a number."""
    edit(run)
    for read in (lambda: read_run(run), lambda: load_summaries(run.parent), lambda: load(run.parent)):
        with pytest.raises(ValueError, match="damaged") as caught:
            read()
        assert str(run) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["summary.json", "metrics.csv", "test_examples.npz"])
def test_file_of_another_run_is_refused(run, other, name):
    shutil.copy(other / name, run / name)
    with pytest.raises(ValueError, match="damaged"):
        read_run(run)
