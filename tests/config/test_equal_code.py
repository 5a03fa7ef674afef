"""Code that golden runs found to compute the same counts as unchanged, and no more than they tested."""

import json
from pathlib import Path

import pytest

from normexp.config.code import changed, changes, equal
from normexp.config.code.changes import OLDER
from normexp.config.code.record import REPLICAS, TRAINING

ROOT = Path(__file__).parents[2]
MODEL, NORM, DATA, WATCH = (
    f"normexp.{name}" for name in ("models.MLP", "norms.RMSNorm", "data.Digits", "monitors.A")
)
CONFIG = {
    "model": {"_target_": MODEL},
    "norm": {"_target_": NORM},
    "data": {"_target_": DATA},
    "optimizer": {"_target_": "torch.optim.SGD"},
    "monitor": {"a": {"_target_": WATCH}},
}
CLASSES = (MODEL, NORM, DATA, WATCH, TRAINING)
TESTED = ("MLP RMSNorm SGD training", "Digits training", "A training")


def version(letter: str, *names: str) -> dict[str, str]:
    return {name: f"{name} {letter}" for name in names or CLASSES}


def entry(old: dict, new: dict, agree=TESTED, differ=()) -> dict:
    found = {"agree": {key: {} for key in agree}, "differ": dict.fromkeys(differ)}
    return {"old": {"sources": old}, "new": {"sources": new}, "device": "cpu", **found}


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Write what golden runs found, and say which version is at hand."""
    number = iter(range(9))

    def set_code(*entries: dict, present: dict) -> None:
        path = tmp_path / f"{next(number)}.json"
        path.write_text(json.dumps(entries))
        monkeypatch.setattr(equal, "RECORD", path)
        monkeypatch.setattr(changes, "sources", lambda config, *trained_by: present)

    return set_code


def run(recorded: dict, **execution: str) -> dict:
    return {"config": CONFIG, "sources": recorded, "execution": execution}


def test_tested_change_is_none(code):
    old, new = version("1"), version("2")
    code(present=new)
    assert changed(run(old)) == list(new)
    code(entry(old, new), present=new)
    assert changed(run(old)) == []
    code(entry(new, old), present=new)  # equality has no direction
    assert changed(run(old)) == []


@pytest.mark.parametrize(
    ("agree", "differ", "counts"),
    [
        (TESTED, ["MLP RMSNorm SGD training"], True),
        (TESTED, ["MLP training"], True),  # under some option of the model
        (TESTED, ["MLP LayerNorm SGD training", "CNN training"], False),  # nothing that the run uses
        (("MLP RMSNorm Adam training", *TESTED[1:]), [], True),  # not with this optimizer
        (("MLP training", "RMSNorm training", "SGD training", *TESTED[1:]), [], True),  # not together
        (TESTED[:1], [], True),  # not its data
    ],
)
def test_change_counts_where_golden_runs_differ_or_did_not_test(code, agree, differ, counts):
    old, new = version("1"), version("2")
    code(entry(old, new, agree, differ), present=new)
    assert bool(changed(run(old))) == counts


def test_class_that_did_not_change_needs_no_test(code):
    old = version("1")
    new = {**version("2"), DATA: old[DATA], WATCH: old[WATCH]}
    code(entry(old, new, TESTED[:1]), present=new)
    assert changed(run(old)) == []


def test_findings_compose_along_a_chain_without_gaps(code):
    one, two, three, four = (version(letter) for letter in "1234")
    code(entry(one, two), entry(three, two), entry(three, four), present=four)
    assert changed(run(one)) == changed(run(two)) == changed(run(four)) == []
    code(entry(one, two), entry(three, four), present=four)
    assert changed(run(one))
    code(entry(one, two), entry(two, three, differ=TESTED[:1]), entry(three, four), present=four)
    assert changed(run(one))


def test_version_between_the_two_that_were_compared_is_neither(code):
    """A factor may have moved from one file to another: half of such a change computes something else."""
    old, new = version("1"), version("2")
    code(entry(old, new), present=new)
    assert changed(run({**old, NORM: new[NORM]})) == [name for name in CLASSES if name != NORM]


def test_ones_own_class_that_changed_is_untested(code):
    own = {"own.Norm": "1"}
    old, new = version("1") | own, version("2") | own
    code(entry(version("1"), version("2")), present=new)
    config = CONFIG | {"schedule": {"_target_": "own.Norm"}}
    assert changed({**run(old), "config": config}) == []
    assert changed({**run(old | {"own.Norm": "0"}), "config": config})


def test_golden_runs_say_nothing_of_another_device_or_of_compiled_code(code):
    old, new = version("1"), version("2")
    code(entry(old, new), present=new)
    assert changed(run(old, device="cpu")) == []
    assert changed(run(old, device="cuda:0"))
    assert changed({**run(old), "config": CONFIG | {"compile": True}})
    code(entry(old, new) | {"device": "cuda"}, present=new)
    assert changed(run(old, device="cuda:0")) == []


def test_monitors_that_compute_otherwise_count_for_what_they_logged_only(code):
    old, new = version("1"), version("2")
    code(entry(old, new, differ=["A training"]), present=new)
    assert changed(run(old))
    assert changed(run(old), watched=False) == []


def test_replicas_were_tested_as_replicas(code):
    classes = (MODEL, NORM, DATA, WATCH, REPLICAS)
    old, new = version("1", *classes), version("2", *classes)
    code(entry(old, new), present=new)
    assert changed(run(old))
    code(entry(old, new, (*TESTED, "MLP RMSNorm replicas")), present=new)
    assert changed(run(old)) == []
    code(entry(old, new, (*TESTED, "MLP RMSNorm replicas"), ["Digits replicas"]), present=new)
    assert changed(run(old))


def test_record_of_the_older_kind_counts_where_its_version_was_compared(code):
    new = version("2")
    older = {MODEL: "m", NORM: "n", DATA: "d", WATCH: "w"}  # of one file each, and nothing of what trains
    found = entry({}, new)
    found["old"] = {"older": older | {"normexp.norms.LayerNorm": "l"}}
    code(found, present=new)
    assert changed(run(older)) == []
    assert changed(run({**older, NORM: "other"})) == [OLDER]
    code(found, present=version("3"))
    assert changed(run(older)) == [OLDER]
    code(found, entry(new, version("3")), present=version("3"))
    assert changed(run(older)) == []
