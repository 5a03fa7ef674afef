"""The site of verdicts: what its pages say, and that they hold together without a network."""

import dataclasses
import html
import math
import re

import pandas as pd
import pytest
from committed import CLAIMS
from settings import FEWER, family

from normexp.claims.evidence.curves import ledger_of
from normexp.claims.evidence.stored import LEDGER
from normexp.claims.judge.verdict import judge
from normexp.claims.pages.figure import lines_of
from normexp.claims.pages.site.drawings import forest, over_rate
from normexp.claims.pages.site.write import index_row, write_site
from normexp.claims.spec.cell import BankCell
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.select import OTHER, topic
from normexp.cli.verify import main
from normexp.report.drawing import NARROW

EFFECTS = [-0.4, -0.5, -0.2, -0.35, -0.6, 0.05]
SETTINGS = {
    f"cell{place}": ["data=digits", f"model={model}"] for place, model in enumerate(("mlp", "cnn") * 3)
}
CLAIM = Claim(
    id="Q1", name="n", sentence="a <b> has fewer errors & more.", source="Someone 2020", covers=("Q1",),
    evidence="training", measure="errors", metric="test/error", arms={"a": ["norm=batchnorm"], "b": ["norm=none"]},
    comparisons=[FEWER], better="lower", kind="verbatim", settings=SETTINGS,
    cells={name: BankCell(name=name, overrides=tuple(own), labels={"data": "digits", "model": "MLP"},
                          rates=(0.1, 0.3, 1.0), norms=("none", "batchnorm"), test="cut again", validation=288)
           for name, own in SETTINGS.items()},
    paper_effect={"value": "3 points", "where": "table 1", "size": "ResNet-50", "effect": -0.3},
)  # fmt: skip
UNTESTED = Claim(
    id="Q2",
    name="m",
    sentence="It is nice.",
    source="s",
    covers=("Q2",),
    evidence="none",
    reason="no measure",
)


@pytest.fixture(scope="module")
def verdict():
    found = judge(family(EFFECTS), CLAIM, drawn=True)
    for place, row in enumerate(found["settings"]):
        row["name"] = f"cell{place}"
    return found | {"command": "normexp verify claim=Q1"}


@pytest.fixture
def site(verdict, tmp_path):
    ledger = tmp_path / LEDGER / "cell0.csv"
    ledger.parent.mkdir(parents=True)
    runs().to_csv(ledger, index=False)
    folder = tmp_path / "site"
    said = write_site(folder, {"Q1": CLAIM, "Q2": UNTESTED}, {"Q1": verdict}, tmp_path)
    assert "2 claims, 1 verdicts" in said
    return folder


def runs() -> pd.DataFrame:
    rows = [
        {
            "cell": "cell0",
            "norm": norm,
            "lr": lr,
            "seed": seed,
            "status": "completed",
            "train_loss": 1.0,
            "test_accuracy": accuracy + 0.01 * seed,
            "seconds": 1.0,
            "code": "",
            "hash": f"{norm}{lr}{seed}",
        }
        for norm, lr, accuracy in (("none", 0.1, 0.5), ("none", 1.0, 0.2), ("batchnorm", 0.1, 0.7))
        for seed in range(3)
    ]
    return pd.DataFrame([*rows, {**rows[0], "norm": "batchnorm", "lr": 1.0, "status": "diverged"}])


def test_the_runs_of_a_setting_are_those_that_the_claim_reads(site, verdict, tmp_path):
    found = ledger_of(dataclasses.replace(CLAIM, seeds=2), verdict, tmp_path)
    assert list(found) == ["cell0"]
    assert sorted(set(found["cell0"]["norm"])) == ["a", "b"]
    assert set(found["cell0"]["seed"]) == {0, 1}


def test_the_forest_plot_has_every_setting_in_order_the_median_and_the_paper(verdict):
    lines = lines_of(verdict)
    rows = sorted(verdict["settings"], key=lambda row: row["number"])
    assert [line.name for line in lines] == [
        *(row["name"] for row in rows),
        "median of settings",
        "the paper",
    ]
    for line, row in zip(lines, rows, strict=False):
        assert line.effect == row["number"]
        assert line.ends == (row["number"] - row["error"], row["number"] + row["error"])
        assert line.kind == ("for" if row["number"] < -0.1 else "open")
    assert lines[-2].effect == verdict["effect"]
    assert lines[-1].effect == -0.3


def marks(drawn: str) -> list[float]:
    """x of each mark that tells its values, from the top to the bottom."""
    curves = re.findall(r'<g [^>]*class="curve".*?</use>', drawn, re.S)
    return [float(re.search(r'<use [^>]*x="([0-9.]+)"', own)[1]) for own in curves]


def test_marks_stand_where_their_values_are(verdict):
    places, values = marks(str(forest(verdict))), [line.effect for line in lines_of(verdict)]
    scale = (places[-3] - places[0]) / (values[-3] - values[0])
    for place, value in zip(places, values, strict=True):
        assert place == pytest.approx(places[0] + scale * (value - values[0]), abs=0.2)
    assert scale > 0


def test_the_sides_of_zero_and_the_ticks_are_words_and_round_numbers(verdict):
    drawn = str(forest(verdict, better="lower"))
    texts = [html.unescape(text) for text in re.findall(r"<text [^>]*>([^<]*)</text>", drawn)]
    assert {"← a better", "a worse →", "0", "−20%"} <= set(
        texts
    )  # effects are logarithms, and told in percent
    share = verdict | {
        "measure": "share of wrong answers",
        "comparisons": [{"comparison": {"kind": "smaller"}}],
    }
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", str(forest(share)))
    assert {"← lower", "higher →", "−20"} <= set(texts)


def test_ends_that_are_not_finite_are_drawn_to_the_edge(verdict):
    rows = [
        {**verdict["settings"][0], "error": math.nan},
        {**verdict["settings"][1], "error": math.inf},
        {**verdict["settings"][2], "number": None, "holds": False},
        *verdict["settings"][3:],
    ]
    drawn = str(forest({**verdict, "settings": rows}))
    assert len(marks(drawn)) == 7
    assert all(0 <= place <= NARROW.width * 72 for place in marks(drawn))
    assert "no number" in drawn


def test_accuracy_over_rate_is_the_mean_of_completed_runs():
    drawn = str(over_rate({"cell0": runs()}, {"none": "555555", "batchnorm": "0072b2"}))
    assert "none, rate 0.1: 51.0%" in drawn
    assert "batchnorm, rate 1: diverged" in drawn


def test_claims_are_found_by_words_and_each_has_a_topic(capsys):
    assert main(["find=batch size"]) == 0
    said = capsys.readouterr().out
    assert "Batch size\n" in said
    assert "In an MLP BatchNorm loses accuracy when the batch falls from 32 to 4, and to 2." in said
    assert "claim=P" in said
    assert main(["find=nothing of this"]) == 2
    assert "no claim has all of these words" in capsys.readouterr().err
    assert sum(topic(claim) == OTHER for claim in CLAIMS.values()) < 20


def test_the_index_can_be_filtered_and_leads_to_every_page(site, verdict):
    index = (site / "index.html").read_text()
    assert 'data-word="undecided"' in index
    assert 'data-model="cnn|mlp"' in index
    assert 'data-scope="several settings"' in index
    assert 'data-paper="Someone 2020"' in index
    for name in ("word", "scope", "paper", "kind", "evidence", "model", "data", "text"):
        assert f'name="{name}"' in index
    assert sorted(set(re.findall(r'href="(claims/[^"]+)">[^<]*[a-z]', index))) == [
        "claims/Q1.html",
        "claims/Q2.html",
    ]
    assert index_row(UNTESTED, None)["word"] == "cannot be tested"


def test_pages_fetch_nothing_and_every_link_leads_to_a_file(site):
    pages = [site / "index.html", *(site / "claims").glob("*.html")]
    assert len(pages) == 3
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"#]+)', page.read_text()):
            assert "//" not in link
            assert (page.parent / link).exists(), link
    assert "url(" not in (site / "style.css").read_text()


def test_a_claims_page_says_what_it_rests_on(site, verdict):
    page = html.unescape((site / "claims" / "Q1.html").read_text())
    assert CLAIM.sentence in page
    assert "<b> has" not in (site / "claims" / "Q1.html").read_text()  # a sentence is text, not HTML
    assert f"median {verdict['effect']:.3g} (" in page.lower()
    assert f"<h1>{html.escape(CLAIM.sentence)}</h1>" in (site / "claims" / "Q1.html").read_text()
    assert "In the middle of the settings: with a 31% lower than with b" in page
    for words in (
        "It rests on trained networks in 6 settings that a written seed drew, 12 seeds each.",
        "Errors: more than 9.5% lower was asked; so in 5 of 6 settings",
        "3 points",
        "beyond the margin in 5 of 6 drawn settings",
        "unregistered",
        CLAIM.protocol,
        "No run failed.",
        "cell0.csv",
    ):
        assert words in page, words
    assert "no measure" in (site / "claims" / "Q2.html").read_text()


def test_a_folder_of_other_files_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine").write_text("")
    assert main([f"page={tmp_path}", f"out={tmp_path / 'none'}"]) == 2
    assert "is a folder with other files" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    assert main([f"page={tmp_path / 'empty'}", f"out={tmp_path / 'none'}"]) == 0
    assert (tmp_path / "empty" / "index.html").exists()


def test_a_sentence_about_every_value_has_a_page(tmp_path, verdict):
    """Such a comparison names no arm, and its interval is the range of all values."""
    own = dataclasses.replace(CLAIM, evidence="law", settings={}, paper_effect=None)
    every = {"kind": "every", "at_most": 0.001}
    found = verdict | {
        "settings": [], "comparison": every, "effect": 1e-16, "interval": (1e-17, 1e-16), "evidence": "law",
        "failures": {}, "paper_effect": None, "verdict": "supported", "scope": "",
    }  # fmt: skip
    write_site(tmp_path / "site", {"Q1": own}, {"Q1": found}, tmp_path)
    page = html.unescape((tmp_path / "site" / "claims" / "Q1.html").read_text())
    assert "Errors: all values from 1e-17 to 1e-16; asked: every value at most 0.001." in page
    assert "Ours and the paper's" not in page
    assert "rests on mathematics" in page
    assert "run failed" not in page
    assert "runs failed" not in page


def test_a_setting_is_for_a_claim_of_two_comparisons_where_both_hold(verdict):
    first = verdict["comparisons"][0]
    second = first | {"settings": [row | {"holds": row["name"] == "cell1"} for row in verdict["settings"]]}
    lines = lines_of(verdict | {"comparisons": [first, second]})
    assert [line.name for line in lines if line.kind == "for"] == ["cell1"]
    assert sum(line.kind == "for" for line in lines_of(verdict)) > 1
