"""Code that golden runs found to compute the same counts as unchanged, and no more than they tested."""

import json
import subprocess
import sys
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


def entry(*versions: dict, runs: str = "1", keys=TESTED, kind: str = "sources", **place: str) -> dict:
    """Versions that gave the same results: of each key the digest `runs`."""
    return {
        "versions": [{kind: version} for version in versions],
        "place": {"device": "cpu", **place},
        "results": {key: {"a run": runs} for key in keys},
    }


@pytest.fixture
def code(tmp_path, monkeypatch):
    """Write what golden runs found, and set the present version."""
    number = iter(range(9))

    def set_code(*entries: dict, present: dict) -> None:
        path = tmp_path / f"{next(number)}.json"
        path.write_text(json.dumps(entries))
        monkeypatch.setattr(equal, "RECORD", path)
        monkeypatch.setattr(changes, "sources", lambda config, *trained_by: present)

    return set_code


def run(recorded: dict, **execution: str) -> dict:
    return {"config": CONFIG, "sources": recorded, "execution": execution}


def test_change_that_golden_runs_tested_does_not_count(code):
    old, new = version("1"), version("2")
    code(present=new)
    assert changed(run(old)) == list(new)
    code(entry(old, new), present=new)
    assert changed(run(old)) == []
    code(entry(new, old), present=new)  # equality has no direction
    assert changed(run(old)) == []


@pytest.mark.parametrize(
    ("keys", "differing", "counts"),
    [
        (TESTED, (), False),
        (TESTED, ["MLP RMSNorm SGD training"], True),
        (TESTED, ["MLP training"], True),  # under some option of the model
        (TESTED, ["MLP LayerNorm SGD training", "CNN training"], False),  # nothing that the run uses
        (("MLP RMSNorm Adam training", *TESTED[1:]), [], True),  # not with this optimizer
        (("MLP training", "RMSNorm training", "SGD training", *TESTED[1:]), [], True),  # not together
        (TESTED[:1], [], True),  # not its data
    ],
)
def test_change_counts_where_golden_runs_differ_or_did_not_test(code, keys, differing, counts):
    old, new = version("1"), version("2")
    before, after = entry(old, keys=(*keys, *differing)), entry(new, keys=(*keys, *differing))
    for key in differing:
        after["results"][key] = {"a run": "2"}
    code(before, after, present=new)
    assert bool(changed(run(old))) == counts


def test_class_that_did_not_change_needs_no_test(code):
    old = version("1")
    new = {**version("2"), DATA: old[DATA], WATCH: old[WATCH]}
    code(entry(old, new, keys=TESTED[:1]), present=new)
    assert changed(run(old)) == []


def test_results_of_two_places_are_not_compared(code):
    one, two, three = (version(letter) for letter in "123")
    here, there = {"torch": "2.11.0"}, {"torch": "2.15.0"}
    code(entry(one, **here), entry(two, **here), present=two)
    assert changed(run(one)) == []
    code(entry(one, **here), entry(two, **there), present=two)
    assert changed(run(one))
    code(entry(one, **here), entry(two, **here), entry(two, three, runs="2", **there), present=three)
    assert changed(run(one)) == []  # over a version that both places know
    code(entry(one, **here), entry(two, runs="2", **here), entry(two, three, **there), present=three)
    assert changed(run(one))


def test_version_with_half_of_a_tested_change_counts_as_changed(code):
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
    code(entry(old, new, device="cuda"), present=new)
    assert changed(run(old, device="cuda:0")) == []


def test_monitors_that_compute_otherwise_count_for_what_they_logged_only(code):
    old, new = version("1"), version("2")
    after = entry(new)
    after["results"]["A training"] = {"a run": "2"}
    code(entry(old), after, present=new)
    assert changed(run(old))
    assert changed(run(old), watched=False) == []


def test_replicas_were_tested_as_replicas(code):
    classes = (MODEL, NORM, DATA, WATCH, REPLICAS)
    old, new = version("1", *classes), version("2", *classes)
    code(entry(old, new), present=new)
    assert changed(run(old))
    code(entry(old, new, keys=(*TESTED, "MLP RMSNorm replicas")), present=new)
    assert changed(run(old)) == []


def test_record_of_the_older_kind_counts_where_its_version_was_tested(code):
    new = version("2")
    older = {MODEL: "m", NORM: "n", DATA: "d", WATCH: "w"}  # of one file each, and nothing of what trains
    known = entry(older | {"normexp.norms.LayerNorm": "l"}, kind="older")
    code(known, entry(new), present=new)
    assert changed(run(older)) == []
    assert changed(run({**older, NORM: "other"})) == [OLDER]
    code(known, entry(new, runs="2"), present=new)
    assert changed(run(older)) == [OLDER]
    code(known, entry(new), present=version("3"))
    assert changed(run(older)) == [OLDER]


@pytest.mark.slow
def test_golden_runs_come_out_as_they_were_recorded(tmp_path):
    """A sample of the last entry is trained again, so the record cannot hold results that the code does not compute."""
    recorded = json.loads(equal.RECORD.read_text())[-1]
    digests = {name: digest for runs in recorded["results"].values() for name, digest in runs.items()}
    sample = sorted(digests)[:: len(digests) // 4][:4]
    out = tmp_path / "golden.json"
    command = [sys.executable, ROOT / "scripts" / "golden_runs.py", "record", out]
    names = [word for name in sample for word in ("--only", name)]
    subprocess.run([*command, *names], check=True, capture_output=True, timeout=300)
    found = json.loads(out.read_text())
    if {name: run.get("digest") for name, run in found["runs"].items()} == {n: digests[n] for n in sample}:
        return
    assert found["runs"].keys() == set(sample)
    same_place = found["place"].items() <= recorded["place"].items()
    same_code = any(found["version"]["sources"] == known.get("sources") for known in recorded["versions"])
    assert not (same_place and same_code), "this code does not compute what is recorded of it"
    pytest.skip(
        "it computes something else, as another version of the code or of torch, or on another machine"
    )
