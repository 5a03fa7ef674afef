"""The registry: rows are only added, amendments spend alpha and take fresh seeds, runs come after their row."""

import dataclasses
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from committed import CLAIMS, ROOT
from repository import git

from normexp.claims.evidence.protocol import resolved_protocol, seeds_of
from normexp.claims.spec.registry import (
    CORRECTED,
    REGISTRY,
    WITHDRAWN,
    Row,
    alpha_of,
    digest,
    history_of,
    kept_commits,
    latest,
    not_after,
    open_registry,
    read_registry,
    register,
)
from normexp.cli.register import main

# One of the project's claims, in one setting, at two sizes of the batch.
ONE_SETTING = dataclasses.replace(
    CLAIMS["P13a"], settings={}, cells={}, seeds=20, first_seed=100,
    factor={"batch_size": [16, 64]}, arms={"batchnorm": ["norm=batchnorm"]},
    fixed=["model=cnn", "data=mnist", "data.train_size=10000", "max_epochs=5"],
)  # fmt: skip


def add(path: Path, protocol: str, seeds, subject: str = "P10", **options) -> Row:
    kept = {"reason": "because", "commit": "", "date": "2026-01-01T00:00:00+00:00"} | options
    return register(path, subject=subject, protocol=protocol, seeds=seeds, **kept)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "registry.jsonl"
    add(path, "one", [[0, 20]])
    add(path, "bank", [[0, 5]], "bank")
    add(path, "two", [[20, 40], [200, 260]])
    add(path, "three", [[40, 60]])
    return path


def test_the_committed_registry_is_whole_and_keeps_what_its_hashes_stand_for():
    rows = read_registry(ROOT / REGISTRY)
    kept = [json.loads(path.read_text()) for path in (ROOT / REGISTRY.parent / "protocols").glob("*.json")]
    asked = {row.protocol for row in rows if not row.subject.startswith((WITHDRAWN, CORRECTED))}
    assert asked <= {digest(protocol) for protocol in kept}


def test_rows_are_chained_by_hashes_of_what_stands_in_the_file(path):
    rows = read_registry(path)
    for line, row in zip(path.read_text().splitlines(), rows, strict=True):
        assert digest(json.loads(line)) == row.hash
    assert [row.before for row in rows[1:]] == [row.hash for row in rows[:-1]]
    assert [row.number for row in rows] == [1, 2, 3, 4]
    assert latest(rows, "P10") == rows[3]
    assert latest(rows, "P11") is None


def test_amendments_spend_halves_and_name_what_they_amend(path):
    rows = [row for row in read_registry(path) if row.subject == "P10"]
    assert [row.alpha for row in rows] == [0.05, 0.025, 0.0125]
    assert [row.amends for row in rows] == [None, 1, 3]
    assert sum(alpha_of(amendments) for amendments in range(100)) <= 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[1:], "row 1: number=2: must be 1"),
        (lambda lines: lines[:1] + lines[2:], "row 2: number=3: must be 2"),
        (
            lambda lines: [lines[0].replace("because", "for no reason"), *lines[1:]],
            "row 2: before=.*: is not the hash",
        ),
        (
            lambda lines: [*lines[:3], lines[3].replace("0.0125", "0.05")],
            "row 4: alpha=0.05: must be 0.0125 after 2",
        ),
        (
            lambda lines: [*lines[:3], lines[3].replace("[40, 60]", "[250, 270]")],
            "row 4: seeds=.*: row 3 had some",
        ),
        (
            lambda lines: [*lines[:3], lines[3].replace('"amends": 3', '"amends": 1')],
            "row 4: amends=1: must be 3",
        ),
        (lambda lines: [*lines[:3], lines[3].replace("2026", "2025")], "row 4: date=2025.*lies before"),
        (lambda lines: [*lines[:3], lines[3][:-1]], "row 4: is no JSON"),
        (lambda lines: [*lines[:3], "{}"], "row 4: must have the keys"),
    ],
)
def test_whatever_is_done_to_the_file_is_found(path, change, message):
    lines = change(path.read_text().splitlines())
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=message) as error:
        read_registry(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "three", "seeds": [[60, 80]]}, "P10: its protocol is registered, row 4"),
        (
            {"protocol": "four", "seeds": [[59, 80]]},
            "P10: row 4 had some of its seeds; .* set first_seed: 260",
        ),
        ({"protocol": "four", "seeds": [[210, 220]]}, "P10: row 3 had some"),
        ({"protocol": "four", "seeds": [[60, 80]], "reason": " "}, "reason=: is empty"),
        ({"protocol": "four", "seeds": [[60, 80]], "date": "2025-01-01T00:00:00+00:00"}, "lies before"),
    ],
)
def test_what_may_not_be_registered_is_one_line_and_writes_nothing(path, options, message):
    before = path.read_text()
    with pytest.raises(ValueError, match=message):
        add(path, **options)
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("subject", "remedy"),
    [("population texts", "set seed: 1001 in its length"), ("bank texts", "give the bank another name")],
)
def test_an_amended_bank_says_what_gives_fresh_seeds(path, subject, remedy):
    add(path, subject=subject, protocol="five", seeds=[[1000, 1001]])
    with pytest.raises(ValueError, match=f"{subject}: row 5 had some of its seeds; .* {remedy}"):
        add(path, subject=subject, protocol="six", seeds=[[1000, 1001]])


@pytest.fixture
def repository(tmp_path):
    """One commit before the first row, one after it, one after the second."""
    path = tmp_path / REGISTRY
    path.parent.mkdir(parents=True)
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("a")
    commits = []
    for number in range(3):
        if number:
            add(
                path, str(number), [[20 * number, 20 * number + 20]], date=f"2026-01-0{number}T00:00:00+00:00"
            )
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", str(number))
        commits.append(git(tmp_path, "rev-parse", "HEAD").strip())
    return tmp_path, commits, read_registry(path)


def run(commit: str, started: str = "2026-01-03T00:00:00+00:00", **options):
    finished = datetime.fromisoformat(started) + timedelta(seconds=100)
    return {"run": "r", "finished": finished.isoformat(), "seconds": 100.0, "commit": commit} | options


def test_runs_that_came_after_their_row_are_proven_by_their_commit(repository):
    folder, commits, (first, second) = repository
    rows_at = history_of(folder / REGISTRY)
    assert not_after(first, [run(commits[1]), run(commits[2])], rows_at) == []
    assert not_after(second, [run(commits[2])], rows_at) == []
    (why,) = not_after(second, [run(commits[1])], rows_at)
    assert why.startswith(f"r: names commit {commits[1][:12]}, whose registry does not have row 2")
    assert "does not have row 1" in not_after(first, [run(commits[0])], rows_at)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"started": "2026-01-01T23:59:59+00:00"}, "before row 2 was registered"),
        ({"commit": ""}, "names no commit"),
        # Launched before its row and resumed after it: the end and the seconds say nothing of that.
        ({"began": "2026-01-01T12:00:00+00:00"}, "started 2026-01-01 12:00:00, before row 2 was registered"),
        ({"began": "unknown"}, "does not say when it was launched first"),
        ({"dirty": True}, "came from a changed checkout"),
        ({"commit": "f" * 40}, "not in the history of this checkout"),
    ],
)
def test_runs_without_a_witness_are_named(repository, options, message):
    folder, commits, (_, second) = repository
    began = {"started": options["began"]} if "began" in options else {}
    kept = {key: value for key, value in options.items() if key != "began"}
    own = run(**({"commit": commits[2]} | kept)) | began
    (why,) = not_after(second, [own], history_of(folder / REGISTRY))
    assert message in why


def test_a_commit_that_a_rebase_left_behind_proves_nothing(repository):
    folder, commits, (first, _) = repository
    git(folder, "checkout", "-q", "--detach", commits[1])
    (why,) = not_after(first, [run(commits[2])], history_of(folder / REGISTRY))
    assert "not in the history of this checkout" in why
    assert not_after(first, [run(commits[1])], history_of(folder / REGISTRY)) == []


def test_a_row_that_was_written_anew_is_in_no_earlier_commit(repository):
    folder, commits, (first, _) = repository
    forged = dataclasses.replace(first, protocol="better", date="2026-01-01T00:00:00+00:00")
    assert "does not have row 1" in not_after(forged, [run(commits[1])], history_of(folder / REGISTRY))[0]
    assert datetime.now(UTC) > datetime.fromisoformat(first.date)


def test_the_resolved_protocol_has_every_value_and_notices_each():
    claim = ONE_SETTING
    protocol = resolved_protocol(claim)
    assert protocol["cells"].keys() == {"batchnorm / 16", "batchnorm / 64"}
    assert protocol["cells"]["batchnorm / 16"]["batch_size"] == 16
    assert protocol["common"]["norm.eps"] == 1e-5
    assert "outputs" not in protocol["common"]
    for other in (
        # A value that was a default before.
        dataclasses.replace(claim, fixed=[*claim.fixed, "optimizer.momentum=0.8"]),
        dataclasses.replace(claim, sentence="BatchNorm is fine."),
        dataclasses.replace(claim, settings={"a": ["data=mnist"], "b": ["data=digits"]}),
        dataclasses.replace(claim, comparisons=[dataclasses.replace(claim.comparisons[0], margin=0.01)]),
    ):
        assert digest(resolved_protocol(other)) != digest(protocol)
    assert digest(resolved_protocol(dataclasses.replace(claim, note="x", seconds=1))) == digest(protocol)
    settings = dataclasses.replace(claim, settings={"a": ["data=mnist"], "b": ["data=digits"]})
    assert len(resolved_protocol(settings)["cells"]) == 4


def test_laws_need_no_registration_and_others_register_their_seeds():
    with pytest.raises(ValueError, match="claim=S01: evidence=law needs no registration"):
        resolved_protocol(CLAIMS["S01"])
    assert seeds_of(ONE_SETTING) == [[100, 120]]


@pytest.mark.integration
def test_the_command_adds_a_row_keeps_its_protocol_and_lists_them(tmp_path, capsys):
    path = tmp_path / "evidence" / "registry.jsonl"
    asked = ["claim=P04", "reason=first  protocol", f"registry={path}"]
    assert main(asked) == 0, capsys.readouterr().err
    (row,) = read_registry(path)
    claim = CLAIMS["P04"]  # of few cells, each of which is checked
    assert (row.subject, row.reason, row.alpha) == ("P04", "first protocol", 0.05)
    assert row.seeds == seeds_of(claim)
    (kept,) = (path.parent / "protocols").iterdir()
    assert digest(json.loads(kept.read_text())) == row.protocol
    assert main(["claim=P04", "reason=again", f"registry={path}"]) == 2
    said = capsys.readouterr().err
    assert said == "Error: P04: its protocol is registered, row 1; nothing has to be done\n"
    assert main([f"registry={path}"]) == 0
    assert "row 1: P04 " in capsys.readouterr().out
    assert sorted(one.name for one in path.parent.iterdir()) == ["protocols", "registry.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["claim=P10"], "reason=: is missing"),
        (["P10"], "P10: write key=value"),
        (["budget=full"], "budget=full: write key=value with a key of claim"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.startswith(f"Error: {message}")
    assert said.count("\n") == 1


def test_without_a_history_the_commits_beside_the_registry_prove_the_same(repository, tmp_path):
    """As for who has the package and no clone."""
    folder, commits, rows = repository
    runs = [run(commit) for commit in (*commits, "f" * 40)]
    whole = open_registry(folder / REGISTRY)
    objections = {
        (row.number, one["commit"]): bool(not_after(row, [one], whole.rows_at))
        for row in rows
        for one in runs
    }
    alone = tmp_path / "elsewhere" / "registry.jsonl"
    alone.parent.mkdir()
    alone.write_text((folder / REGISTRY).read_text())
    alone.with_name("commits.json").write_text(json.dumps(kept_commits(whole, [*commits, "f" * 40])))
    shutil.rmtree(folder / ".git")
    without = open_registry(alone)
    for row in rows:
        for one in runs:
            assert bool(not_after(row, [one], without.rows_at)) == objections[row.number, one["commit"]]
