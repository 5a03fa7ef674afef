"""`docs/verdicts.md` says what the committed evidence says, and judging all of it again takes less than two minutes
of processor time."""

import json
import re
import time
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from committed import CLAIMS, ROOT

from normexp.claims.conclude import judge_all_again
from normexp.claims.evidence.sources import NETWORK
from normexp.claims.evidence.stored import PLACE, StoredEvidence
from normexp.claims.pages.verdicts_page import FIRST_JUDGE, table, write_page
from normexp.claims.spec.registry import REGISTRY, digest, read_registry

# Networks of a drawn bank are examined once its claims are registered; until then they have no values.
UNTRAINED = {
    name: claim
    for name, claim in CLAIMS.items()
    if claim.evidence != "training" and (not claim.drawn or StoredEvidence().verdict(claim))
}


def rows(text: str) -> dict[str, str]:
    """The rows of the tables of verdicts by id."""
    return {name: line for line in text.splitlines() for name in re.findall(r"^\| \[(\w+)\]", line)}


@pytest.fixture(scope="module")
def verdicts():
    start = time.process_time()
    found = judge_all_again(UNTRAINED, ROOT)
    assert time.process_time() - start < 120
    return found


@pytest.mark.integration
def test_the_page_has_the_verdicts_that_need_no_training_as_their_evidence_gives_them(verdicts):
    page = rows((ROOT / "docs" / "verdicts.md").read_text())
    for letter in "SPX":
        for name, row in rows(table(UNTRAINED, verdicts, letter, ROOT)).items():
            if name in UNTRAINED:
                assert page[name] == row, name


def test_every_claim_that_needs_no_training_has_its_evidence_committed():
    missing = [
        name
        for name, claim in UNTRAINED.items()
        if claim.evidence != "none" and StoredEvidence().verdict(claim) is None
    ]
    assert missing == []


def test_claims_about_initial_networks_are_over_settings_or_searched(verdicts):
    for name, claim in UNTRAINED.items():
        if claim.evidence == "initialization" and claim.kind != "self-check":
            assert claim.search or claim.settings, name
    over = {name for name, claim in UNTRAINED.items() if claim.settings}
    assert over <= verdicts.keys()


@pytest.mark.integration
def test_no_two_settings_of_a_claim_are_the_same_network(verdicts):
    """A norm removes the scale of the weights: settings that differ in it alone would be one, counted twice. Drawn
    networks are also told apart by the directions of what their maps give, since a measure may be at its end."""
    for name, claim in UNTRAINED.items():
        if not claim.settings:
            continue
        own = StoredEvidence().verdict(claim).table
        own = own[own["part"].isin(["", NETWORK])]
        assert not claim.drawn or set(own[own["part"] == NETWORK]["setting"]) == set(claim.settings), name
        values = {
            setting: rows.sort_values(["part", "arm", "factor", "seed"])["value"].to_numpy()
            for setting, rows in own.groupby("setting")
        }
        counted = [row["name"] for row in verdicts[name]["settings"]]

        def same(first: str, second: str, values: dict = values) -> bool:
            return np.allclose(values[first], values[second], rtol=1e-4, equal_nan=True)

        for i, first in enumerate(counted):
            for second in counted[:i]:
                assert not same(first, second), (name, first, second)
        for first in values.keys() - set(counted):  # passed over
            assert claim.drawn, (name, first)
            assert any(same(first, second) for second in counted), (name, first)


def test_a_claim_whose_drawn_settings_wait_has_the_counts_of_chosen_ones():
    waiting = {name: CLAIMS[name] for name in ("P10", "P32")}
    page = rows(table(waiting, {}, "P", ROOT))
    assert "by runs of the [first judge](first_judge.md): two worse than thirty_two in 5 of 5" in page["P10"]
    assert "first judge" not in page["P32"]  # it is younger


def counted(name: str, arm: str, baseline: str) -> Counter:
    """Settings on each side of the margin of practice, from the table of runs alone: each seed of an arm at the rate
    with its best validation result."""
    found: Counter[str] = Counter()
    for cell, runs in pd.read_csv(ROOT / PLACE / "claims" / name / "runs.csv").groupby("cell"):
        text = cell.startswith("shakespeare")
        runs["first"] = runs["val_loss"] if text else -runs["val_accuracy"]
        runs["result"] = runs["test_loss"] if text else 1 - runs["test_accuracy"]
        best = runs.sort_values(["first", "lr"]).groupby(["norm", "seed"]).first()["result"].unstack("norm")
        error = best[baseline].mean()
        margin = 0.02 if text else 0.003 if error < 0.03 else min(error / 10, 0.01)
        more = (best[arm] - best[baseline]).mean()
        if not (name == "P10" and cell.endswith("cnn")):  # it is about MLPs
            found["worse" if more > margin else "better" if more < -margin else "within"] += 1
    return found


@pytest.mark.parametrize(
    ("name", "arm", "baseline"),
    [
        ("P05", "noisy", "none"), ("P09", "attached", "detached"), ("P10", "two", "thirty_two"), ("P13", "two", "all"),
        ("S13", "noisy", "batchnorm"),
    ],
)  # fmt: skip
def test_counts_in_hand_picked_settings_are_those_of_their_runs(name, arm, baseline):
    text = json.loads((ROOT / FIRST_JUDGE).read_text())["hand_picked"][name]
    found = counted(name, arm, baseline)
    first, k, n = re.match(rf"{arm} (\w+) than {baseline} in (\d+) of (\d+)", text).groups()
    others = {
        side: int(count) for side, count in re.findall(r"(within|worse|better)[ \w]* in (\d+)(?! of)", text)
    }
    assert Counter({first: int(k), **others}) == found
    assert int(n) == found.total()


@pytest.mark.slow
def test_the_whole_page_is_what_is_committed(tmp_path):
    write_page(tmp_path / "page.md", CLAIMS, judge_all_again(CLAIMS, ROOT), ROOT)
    assert (tmp_path / "page.md").read_text() == (ROOT / "docs" / "verdicts.md").read_text()


def test_the_words_of_the_first_judge_are_what_was_stored_and_their_protocols_are_those_of_the_registry(
    tmp_path,
):
    write_page(tmp_path / "first_judge.md", CLAIMS, {}, ROOT)
    page = (tmp_path / "first_judge.md").read_text()
    assert page == (ROOT / "docs" / "first_judge.md").read_text()
    words = json.loads((ROOT / FIRST_JUDGE).read_text())["words"]
    known = {row.number: row for row in read_registry(ROOT / REGISTRY)[:72]}
    assert len(words) == 172
    for name, own in words.items():
        assert f"| {name} | {own['word']}" in page
        if own["row"]:
            row = known[own["row"]]
            assert (own["hash"], own["protocol"]) == (row.hash, row.protocol)
    for row in known.values():  # the texts behind the hashes
        path = ROOT / PLACE / row.file
        assert digest(json.loads(path.read_text())) == row.protocol
