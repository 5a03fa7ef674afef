"""`tune=none` shows how a verdict changes without tuning. It never replaces the tuned verdict."""

import dataclasses
import json
from pathlib import Path

import pytest
from committed import CLAIMS as COMMITTED
from tables import spread, table_of

from normexp.claims import rounds
from normexp.claims.evidence import curves
from normexp.claims.evidence import plan as runs_of
from normexp.claims.evidence.plan import Known
from normexp.claims.judge.comparison import Comparison
from normexp.claims.pages.verdicts_page import verdicts_in, write_page
from normexp.claims.verify_claims import verify_all

# P08 in one setting, with runs of its own.
CLAIMS = COMMITTED | {
    "P08": dataclasses.replace(
        COMMITTED["P08"], first=0, drawn_from=None, settings={}, cells={},
        metric="test/accuracy", better="higher", seeds=5, rate="own",
        tune={"lr": [0.1, 0.3], "seeds": 2}, fixed=["model=mlp"],
        comparisons=[Comparison(kind="equivalent", arm="rmsnorm", baseline="layernorm", margin=0.01)],
    ),
    "Q9": dataclasses.replace(COMMITTED["S26"], id="Q9", evidence="none", reason="It is nice."),
}  # fmt: skip


@pytest.fixture(autouse=True)
def fabricated_runs(monkeypatch):
    """The arms of P08 are equal if each has its own learning rate, and far apart otherwise."""

    def values(known, seeds):
        arms = {"rmsnorm": spread(0.9, 0.001, 5), "layernorm": [0.9 if known.claim.tune else 0.5] * 5}
        return table_of(arms)

    monkeypatch.setattr(Known, "values", values)
    monkeypatch.setattr(Known, "tuned", lambda known: {("rmsnorm", ""): 0.1, ("layernorm", ""): 0.1})
    monkeypatch.setattr(runs_of, "cost", lambda runs, disk: {"training_seconds": 0.0})
    monkeypatch.setattr(rounds, "plan", lambda claim, known: [])
    monkeypatch.setattr(rounds, "most_missing", lambda claim, known: 0)
    monkeypatch.setattr(curves, "write_claim_means", lambda runs, folder: None)
    monkeypatch.setattr(Known, "compared", lambda known: [])


def word(path: Path) -> str:
    return json.loads(path.read_text())["verdict"]


def ask(out: Path, *, tuned: bool, name: str = "P08") -> None:
    verify_all([CLAIMS[name]], out, tuned=tuned, command="python scripts/verify.py claim={id}")


def test_the_untuned_verdict_lies_beside_the_tuned_one_and_both_words_are_shown(tmp_path, capsys):
    ask(tmp_path, tuned=True)
    ask(tmp_path, tuned=False)
    assert word(tmp_path / "P08" / "verdict.json") == "seen here"
    assert word(tmp_path / "P08" / "untuned" / "verdict.json") == "not seen here"
    said = capsys.readouterr().out
    assert "P08  SEEN HERE: " in said
    assert "P08 (untuned)  NOT SEEN HERE: 0.4 (" in said
    assert "with each arm's own learning rate: SEEN HERE" in said


def test_alone_it_says_that_the_tuned_verdict_is_not_known_and_the_page_has_none(tmp_path, capsys):
    ask(tmp_path, tuned=False)
    assert "not yet known" in capsys.readouterr().out
    assert not (tmp_path / "P08" / "verdict.json").exists()
    assert written(tmp_path).startswith("not yet run")


def test_the_page_shows_it_with_the_tuned_verdict_and_never_instead(tmp_path):
    ask(tmp_path, tuned=True)
    ask(tmp_path, tuned=False)
    assert written(tmp_path).startswith("**seen here: ")
    (tmp_path / "P08" / "untuned" / "verdict.json").rename(tmp_path / "P08" / "verdict.json")
    assert written(tmp_path).startswith("not yet run")


def written(out: Path) -> str:
    """P08's row from its verdict on."""
    write_page(out / "page.md", CLAIMS, verdicts_in(CLAIMS, out))
    return next(row for row in (out / "page.md").read_text().split("\n") if row.startswith("| [P08]")).split(
        " | "
    )[2]


def test_a_claim_that_tunes_nothing_has_one_verdict(tmp_path):
    ask(tmp_path, tuned=False, name="S29")
    assert word(tmp_path / "S29" / "verdict.json") == "refuted"
    assert "tune=none" not in json.loads((tmp_path / "S29" / "verdict.json").read_text())["command"]


def test_a_sentence_that_cannot_be_tested_writes_that_with_its_reason(tmp_path):
    ask(tmp_path, tuned=True, name="Q9")
    verdict = json.loads((tmp_path / "Q9" / "verdict.json").read_text())
    assert {"verdict", "effect", "interval", "n_seeds", "measure", "source"} <= set(verdict)
    assert (verdict["verdict"], verdict["reason"]) == ("cannot be tested", CLAIMS["Q9"].reason)
    own = {"S26": dataclasses.replace(CLAIMS["Q9"], id="S26")}
    write_page(tmp_path / "page.md", own, {})
    assert CLAIMS["Q9"].reason in (tmp_path / "page.md").read_text()
