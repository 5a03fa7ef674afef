"""What claims and their documentation say of themselves is so."""

import re

from committed import CLAIMS, ROOT, text_of


def test_training_claims_say_how_rates_are_chosen():
    trained = [claim for claim in CLAIMS.values() if claim.evidence == "training"]
    assert {claim.id for claim in trained if "rate" not in claim.note} == set()


def test_claims_that_train_nothing_say_whose_sentence_they_are():
    assert [claim.id for claim in CLAIMS.values() if claim.evidence != "training" and not claim.kind] == []
    by_itself = {claim.id for claim in CLAIMS.values() if claim.kind == "self-check"}
    assert by_itself == {"S33", "S41", "S55"}


def test_the_example_in_the_documentation_is_a_file_as_it_stands():
    shown = (ROOT / "docs" / "claims.md").read_text().split("```yaml\n")[1].split("```")[0]
    lines = [line.split("  # ")[0] for line in shown.splitlines()]
    own = [line for line in text_of("P14").splitlines() if not line.startswith(("id:", "#"))]
    assert lines == own


def test_a_page_that_answers_a_sentence_names_it():
    linked = {claim.id: claim.answered_in for claim in CLAIMS.values() if claim.answered_in}
    assert linked
    for name, page in linked.items():
        assert re.search(rf"\b{name}\b", (ROOT / "docs" / page).read_text()), (name, page)


def test_a_table_says_what_is_asked_in_place_of_the_sources_words():
    """Rows whose measure or margin the source does not have: the source says whose it is."""
    for name in ("S47", "S57", "S90", "S91", "S22"):
        assert re.search(r"\b(is|are) ours\b", CLAIMS[name].source), name
