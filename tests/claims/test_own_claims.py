"""Claims in a user's own files."""

import json

import pandas as pd
import pytest
from test_broken_claims import GOOD

from normexp.claims.spec.find import find, own_claims
from normexp.cli.main import run as command


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    return path


def test_a_path_stands_for_the_claim_in_it(mine):
    words, found = own_claims(f"S37, {mine}")
    assert words == "S37,mine"
    assert found["mine"].sentence == "s"


@pytest.mark.parametrize("name", ["law", "S06", "2503.10622"])
def test_a_file_brings_its_own_claim_whatever_its_name(name, mine):
    path = mine.rename(mine.with_name(f"{name}.yaml"))
    (claim,), left_out = find(str(path))
    assert (claim.id, claim.sentence, left_out) == (name, "s", [])


LOGGED = """
name: mine
sentence: LayerNorm at a higher rate has a lower last loss on validation.
source: us
covers: [mine]
evidence: training
metric: logged/last:val/loss
measure: loss on validation
better: lower
arms: {fast: [lr=0.1], slow: [lr=0.001]}
fixed: [model=mlp, model.width=8, data=digits, norm=layernorm, batch_size=64, max_steps=12]
seeds: 5
comparison: {kind: smaller, arm: fast, baseline: slow, margin: 0.05}
"""


@pytest.mark.integration
def test_a_claim_of_a_logged_metric_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(LOGGED)
    assert command("verify", ["claim=mine.yaml", "--workers", "0"]) == 0
    found = json.loads((tmp_path / "outputs/claims/mine/verdict.json").read_text())
    rows = pd.read_csv(tmp_path / "outputs/claims/mine/evidence.csv").pivot(
        index="seed", columns="arm", values="value"
    )
    effect = (rows["fast"] - rows["slow"]).mean()
    assert found["effect"] == pytest.approx(effect)
    assert (found["verdict"] == "holds here") == (found["interval"][1] < -0.05)
    assert "fast" in capsys.readouterr().out
    (tmp_path / "mine.yaml").write_text(
        LOGGED.replace("logged/last:val/loss\n", "{fast: logged/val/loss, slow: logged/val/accuracy}\n")
    )
    assert command("verify", ["claim=mine.yaml", "--workers", "0"]) == 2
    assert "compares accuracy with loss; give metrics of one unit" in capsys.readouterr().err
