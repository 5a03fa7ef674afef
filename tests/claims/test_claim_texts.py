"""What claims and their documentation say of themselves is so."""

from committed import CLAIMS, ROOT, text_of


def test_training_claims_say_how_rates_are_chosen():
    trained = [claim for claim in CLAIMS.values() if claim.evidence == "training"]
    assert {claim.id for claim in trained if "rate" not in claim.note} == set()


def test_initialization_claims_say_what_they_feed_and_name_no_data():
    for claim in CLAIMS.values():
        if claim.evidence == "initialization":
            all_overrides = [claim.fixed, *claim.arms.values(), *claim.settings.values()]
            fed = {
                "random tokens": any("model=gpt" in own for own in all_overrides),
                "digits": any("data=digits" in own for own in all_overrides),
                "text": any("data=python_docs" in own for own in all_overrides),
            }
            assert {name: name in claim.measure for name in fed} == fed, claim.id
            assert ("Gaussian noise" in claim.measure) == any(
                "model=gpt" not in claim.fixed + own and not any(o.startswith("data=") for o in own)
                for own in claim.settings.values() or [[]]
                if "model=gpt" not in own
            ), claim.id
            assert not any(override.startswith("data") for override in claim.fixed), claim.id


def test_claims_that_train_nothing_say_whose_sentence_they_are():
    assert [claim.id for claim in CLAIMS.values() if claim.evidence != "training" and not claim.kind] == []
    by_itself = {claim.id for claim in CLAIMS.values() if claim.kind == "self-check"}
    assert by_itself == {"S33", "S41", "S55"}


def test_the_example_in_the_documentation_is_a_file_as_it_stands():
    shown = (ROOT / "docs" / "claims.md").read_text().split("```yaml\n")[1].split("```")[0]
    lines = [line.split("  # ")[0] for line in shown.splitlines()]
    own = [line for line in text_of("P14").splitlines() if not line.startswith(("id:", "#"))]
    assert lines == own
