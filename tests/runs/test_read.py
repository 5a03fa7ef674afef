"""What a run's files say twice must agree: files that are another's, older, half or edited are refused in one line."""

import json
import shutil

import numpy as np
import pytest
from fabricated import edit_summary, write_run

from normexp.runs import TestExamples, load, load_summaries, load_test_examples, read_run, write_test_examples


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


def rewrite(name, change):
    def edit(run):
        (run / name).write_text(change((run / name).read_text()))

    return edit


def in_another_order(run):
    kept = load_test_examples(run)
    order = np.argsort(kept.loss + kept.right)
    write_test_examples(run, TestExamples(kept.right[order], kept.loss[order], kept.test_set))


UNCONTRADICTED = {
    "metrics.csv": {
        "rows twice": rewrite("metrics.csv", lambda text: text + text.partition("\n")[2]),
        "a validation loss": rewrite("metrics.csv", lambda text: text.replace(",val/loss,0", ",val/loss,9")),
        "a time": rewrite("metrics.csv", lambda text: text.replace("\n100,5.0,1.0", "\n100,5.0,-9")),
    },
    "summary.json": {
        "a choice": rewrite(
            "summary.json", lambda text: text.replace('"norm": "batchnorm"', '"norm": "none"')
        ),
        "seconds": rewrite("summary.json", lambda text: text.replace('"seconds": 2.0', '"seconds": -1e9')),
        "a key twice": rewrite("summary.json", lambda text: text.rstrip()[:-1] + ', "epochs": 20.0}'),
    },
    "test_examples.npz": {"another order": in_another_order},
}
CASES = [(name, edit) for name, edits in UNCONTRADICTED.items() for edit in edits]


@pytest.mark.parametrize(("name", "edit"), CASES, ids=[" of ".join(case[::-1]) for case in CASES])
def test_what_no_other_file_contradicts_is_refused_by_its_digest(run, name, edit):
    before = (run / name).read_bytes()
    UNCONTRADICTED[name][edit](run)
    assert (run / name).read_bytes() != before
    with pytest.raises(ValueError, match=rf"{name}: damaged \((not as the run wrote it|samples=)") as caught:
        load_summaries(run.parent)
    assert "\n" not in str(caught.value)


def test_a_run_of_an_earlier_version_has_no_digests_and_is_read(run):
    summary = json.loads((run / "summary.json").read_text())
    del summary["digests"]
    (run / "summary.json").write_text(json.dumps(summary))
    (run / "test_examples.npz").unlink()
    assert read_run(run).examples is None


def test_links_to_runs_are_followed_once(run, tmp_path):
    study = tmp_path / "study"
    study.mkdir()
    (study / "one").symlink_to(run)
    (study / "again").symlink_to(run)
    (study / "around").symlink_to(study)
    assert len(load_summaries(study)) == 1
