"""What claims and their documentation say of themselves is so."""

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
