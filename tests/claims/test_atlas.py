"""The atlas: its counts are those of a slow loop, figures are drawn, and it reads the ledger of a drawn bank."""

import numpy as np
import pytest
from made_settings import NORMS, made
from matplotlib.image import imread
from test_drawn_claims import MadeRuns, pilot_of
from test_population import write

from normexp.claims.evidence.keep import keep_runs, setting_claim
from normexp.claims.evidence.measured import measured
from normexp.claims.evidence.plan import Known
from normexp.claims.pages import atlas
from normexp.claims.spec.bank import load_bank
from normexp.cli.evidence import main


def errors(norm: str, labels: dict, at: str) -> float:
    """BatchNorm needs batches, LayerNorm helps only early, a deep tanh network without a norm fails."""
    if norm == "batchnorm":
        return 0.12 if int(labels["batch size"]) < 32 else 0.05
    if norm == "layernorm":
        return 0.06 if at == "final" else 0.03
    return 0.95 if labels["activation"] == "tanh" and int(labels["depth"]) > 6 else 0.06


SETTINGS = made(errors)
FINAL = [own for own in SETTINGS if own.at == "final"]


def value(own, norm):
    return min(errors(norm, own.cell.labels, own.at), 0.9)


def test_counts_are_those_of_a_slow_loop():
    best = dict.fromkeys(NORMS, 0)
    for own in FINAL:
        least = min(value(own, norm) for norm in NORMS)
        margin = 0.003 if least < 0.03 else 0.1 * least if least <= 0.1 else 0.01
        for norm in NORMS:
            best[norm] += value(own, norm) <= least + margin
    assert atlas.near_best(FINAL, NORMS) == best
    differences = [100 * (value(own, "batchnorm") - value(own, "none")) for own in FINAL]
    better, worse = sum(one < -0.6 for one in differences), sum(one > 0.6 for one in differences)
    words = atlas.difference_in_words(FINAL, "batchnorm", "none")
    assert words.startswith(
        f"better in {better}, worse in {worse} of 24; median {np.median(differences):+.1f} points"
    )


def test_thirds_are_in_the_order_of_batches_and_of_equal_size():
    found = atlas.thirds(atlas.compared(FINAL, "batchnorm", "layernorm"))
    sizes = sorted(int(own.cell.labels["batch size"]) for own in FINAL)
    assert [(low, high) for low, high, *_ in found] == [(sizes[k], sizes[k + 7]) for k in (0, 8, 16)]
    assert found[0][2] == pytest.approx(0.06)
    assert found[2][2] == pytest.approx(-0.01)


def test_failures_are_counted_of_all_runs():
    rows = atlas.failures(FINAL, NORMS)
    wanted = {own.name for own in FINAL if value(own, "none") == 0.9}
    assert wanted
    assert {own.name for own, _ in rows} == wanted
    assert all(each == {"none": (2, 2), "batchnorm": (0, 2), "layernorm": (0, 2)} for _, each in rows)
    assert f"| no norm | {len(wanted)} | {2 * len(wanted)} of 48 |" in atlas.lost_table(FINAL, rows, NORMS)


@pytest.mark.integration
def test_a_drawn_banks_ledger_becomes_a_page_with_figures(tmp_path, capsys):
    first = load_bank(write(tmp_path))
    bank = load_bank(write(tmp_path, pilots=pilot_of(first, list(first.cells))))
    accuracy = {"none": 0.5, "batchnorm": 0.7}
    for name in list(bank.cells)[:6]:
        made_runs = MadeRuns(
            tmp_path / "runs",
            lambda key: (
                (accuracy[key.arm] if key.lr in (0.03, 0.3) else 0.3) - 0.1 * key.setting.endswith("early")
            ),
        )
        keep_runs(tmp_path / "ledger" / "tiny", Known(setting_claim(bank, name), None, made_runs))
    found = measured(bank, tmp_path / "ledger")
    assert [(own.name, own.at) for own in found[:4]] == [
        ("d001", "final"), ("d001", "early"), ("d002", "final"), ("d002", "early"),
    ]  # fmt: skip
    np.testing.assert_allclose(found[0].setting.outcomes["batchnorm", ""].values, [0.3, 0.3])
    assert len(found[0].runs) == 12
    page = tmp_path / "pages" / "atlas.md"
    words = ["atlas", f"bank={bank.path}", f"evidence={tmp_path / 'ledger'}", f"to={page}"]
    assert main(words) == 0
    assert "6 settings, 4 figures" in capsys.readouterr().out
    text = page.read_text()
    assert "6 of 24 settings are finished: digits; CNN, MLP; updates 80" in text
    assert "no norm in 0, batchnorm in 6 of 6 settings" in text
    assert "**batchnorm** is better in 6, worse in 0 of 6; median -20.0 points (-20.0 to -20.0)" in text
    for figure in page.parent.glob("images/*.png"):
        assert str(figure.relative_to(page.parent)) in text
        assert imread(figure)[..., :3].std() > 0.05  # something is drawn
        assert imread(figure).shape[1] == 900  # 4.5 inches


def test_an_audit_is_told_with_what_did_not_come_out_again():
    def row(name, other=(), differences=(), loss=0.0, accuracy=0.0):
        on = {"processor": "P", "threads": "1", "torch": "2.15.0", "commit": "0123456789abcdef"}
        off = {"loss": loss, "accuracy": accuracy}
        return {"row": name, "other": [*other], "differences": [*differences], "off": off, "on": on}

    rows = [row("a"), row("b"), row("c", ["processor Q"], (), 0.02, 0.001)]
    rows.append(row("d", ["processor Q"], ["val_loss 1 and again 2"], 1.0, None))
    record = {"of": 7686, "seed": 5, "rows": rows}
    words = atlas.audit_in_words(record | {"tolerance": {"loss": 0.1, "accuracy": 0.03}})
    assert words.startswith(
        "4 of 7,686 rows of the ledger, drawn with seed 5, were trained again (P, 1 thread, "
    )
    assert "torch 2.15.0, commit 0123456789ab)" in words
    assert "Their largest deviation is 0.02 of a loss and 0.1 points." in words
    assert "2 of 2 came out equal to the last digit" in words
    assert "1 of 2 came out within the tolerance of 10% of a loss and 3 points of accuracy" in words
    assert words.endswith("- not so: d (val_loss 1 and again 2)")


def test_chosen_settings_have_no_atlas(tmp_path, capsys):
    assert main(["atlas", "bank=small", f"to={tmp_path / 'atlas.md'}"]) == 2
    assert "bank=small: has no population" in capsys.readouterr().err
    assert not (tmp_path / "atlas.md").exists()
