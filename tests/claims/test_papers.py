"""Claims are found by the arXiv id of their paper."""

import pytest

from normexp.claims.spec.find import arxiv_id, load_claims, select
from normexp.cli.main import run
from normexp.cli.verify import CONFIGS


@pytest.mark.parametrize(
    "word", ["2503.10622", "arXiv:2503.10622v2", "arxiv:2503.10622", "https://arxiv.org/abs/2503.10622", "https://arxiv.org/pdf/2503.10622.pdf"]
)  # fmt: skip
def test_every_way_to_write_an_id(word):
    assert arxiv_id(word) == "2503.10622"


def test_other_words_are_no_ids():
    assert not any(map(arxiv_id, ("S37", "all", "12.5", "2503.106221234", "mine.yaml")))


def test_select_finds_the_claims_of_a_paper_and_no_others():
    claims = load_claims(CONFIGS)
    found = select(claims, "2002.04745")
    assert {one.id for one in found} == {i for i, one in claims.items() if "Xiong et al. 2020" in one.source}
    assert {one.id for one in select(claims, "2402.17762")} == {"P28"}
    with pytest.raises(ValueError, match=r"claim=1234\.56789: no claim has this paper as its source"):
        select(claims, "1234.56789")


@pytest.mark.integration
def test_the_command_takes_an_id_also_where_the_data_of_a_claim_are_not_here(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("NORMEXP_DATA", str(tmp_path))
    assert run("verify", ["claim=2402.17762", "--plan", "evidence=none"]) == 2
    assert "tinyshakespeare.txt.gz: No such file or directory; give a text file" in capsys.readouterr().err
