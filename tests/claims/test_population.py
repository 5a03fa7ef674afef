"""Settings drawn at random: the draws, what a rejection changes, mistakes in a yaml, and the program of the pilots."""

import copy
import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import yaml
from committed import ROOT
from refusals import refused
from scipy import stats

from normexp.claims.spec.bank import load_bank, pilots_file
from normexp.claims.spec.population import Population

TINY = yaml.safe_load("""
seed: 3
settings: 24
shared: [recipe=plain]
choose:
  data: {digits: [data=digits]}
  batch size: {key: batch_size, low: 8, high: 512}
  optimizer: {SGD: [optimizer=sgd], AdamW: [optimizer=adamw]}
  decay:
    by: optimizer
    SGD: {key: optimizer.weight_decay, values: [0.5]}
    AdamW: {key: optimizer.weight_decay, low: 0.01, high: 0.1}
strata:
  mlp: {share: 2, choose: {model: {MLP: [model=mlp]}, depth: {key: model.depth, values: [1, 2, 4]}}}
  cnn: {share: 1, choose: {model: {CNN: [model=cnn]}}}
rates: {SGD: [0.03, 0.1, 0.3], AdamW: [0.001, 0.003, 0.01]}
length:
  {updates: 20, passes: 1, start_seconds: 6, seconds: 60, learned: 0.02, gain: 0.05, early: 8, widenings: 1, seed: 1000}
grid: {norms: [none, batchnorm], seeds: 2}
""")
PILOT = {
    "updates": 80, "step_seconds": 0.01, "rates": {"none": [0.01, 0.03, 0.1], "batchnorm": [0.1, 0.3, 1.0]},
    "seconds": 9, "values_per_statistic": 32, "test": "test set", "validation": 288, "chance": 0.1,
    "guess_loss": 2.3,
}  # fmt: skip


def write(folder, node=None, pilots=()):
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(node or TINY, sort_keys=False))
    pilots_file(path).write_text("".join(json.dumps(row) + "\n" for row in pilots))
    return path


def test_the_draw_does_not_depend_on_the_order_of_keys(tmp_path):
    turned = dict(reversed(TINY.items()))
    turned |= {key: dict(reversed(TINY[key].items())) for key in ("choose", "strata")}
    cells = load_bank(write(tmp_path)).cells
    assert load_bank(write(tmp_path, turned)).cells == cells
    assert load_bank(write(tmp_path, TINY | {"seed": 4})).cells != cells


def test_a_new_choice_changes_no_other():
    more = copy.deepcopy(TINY)
    more["strata"]["mlp"]["choose"]["width"] = {"key": "model.width", "values": [8, 16]}
    before, after = (Population.model_validate(node).draw("mlp", 7) for node in (TINY, more))
    assert before.labels == {name: value for name, value in after.labels.items() if name != "width"}


def test_every_block_holds_the_written_proportions(tmp_path):
    kinds = [cell.labels["model"] for cell in load_bank(write(tmp_path)).cells.values()]
    blocks = [Counter(kinds[start : start + 3]) for start in range(0, 24, 3)]
    assert blocks == [{"MLP": 2, "CNN": 1}] * 8
    assert len({tuple(kinds[start : start + 3]) for start in range(0, 24, 3)}) == 3  # in all orders


def test_draws_have_the_written_distributions():
    draws = [Population.model_validate(TINY).draw("mlp", number) for number in range(1, 2001)]
    sizes = np.log([int(draw.labels["batch size"]) for draw in draws])
    low, high = np.log(7.5), np.log(512.5)
    assert stats.kstest(sizes, stats.uniform(low, high - low).cdf).pvalue > 0.001
    counts = Counter(draw.labels["depth"] for draw in draws)
    assert stats.chisquare(list(counts.values())).pvalue > 0.001
    assert set(counts) == {"1", "2", "4"}
    for draw in draws:
        decay = float(draw.labels["decay"])
        assert decay == 0.5 if draw.labels["optimizer"] == "SGD" else 0.01 <= decay <= 0.1
        assert f"optimizer.weight_decay={draw.labels['decay']}" in draw.overrides
    pairs = [(draw.labels["depth"], draw.labels["optimizer"]) for draw in draws]
    table = [[pairs.count((depth, one)) for one in ("SGD", "AdamW")] for depth in "124"]
    assert stats.chi2_contingency(table).pvalue > 0.001  # independent


def test_a_rejected_draw_is_replaced_inside_its_stratum(tmp_path):
    before = load_bank(write(tmp_path)).cells
    (out,) = (cell for cell in before.values() if cell.draw == "mlp 2")
    rows = [{"draw": f"mlp {number}", "rejected": "too long"} for number in (1, 2)]
    path = write(tmp_path, pilots=rows)
    after = load_bank(path).cells
    assert [cell.labels["model"] for cell in after.values()] == [c.labels["model"] for c in before.values()]
    assert after[out.name].draw == "mlp 4"
    cnns = [name for name, cell in before.items() if cell.labels["model"] == "CNN"]
    assert all(after[name] == before[name] for name in cnns)
    with pilots_file(path).open("a") as file:
        file.write('{"draw": "mlp 3", "rej')  # a line that was cut off is left out
    assert load_bank(path).cells == after


def test_a_pilot_gives_length_rates_and_facts(tmp_path):
    first = next(iter(load_bank(write(tmp_path)).cells.values()))
    bank = load_bank(write(tmp_path, pilots=[{"draw": first.draw, **PILOT}]))
    cell = bank.cells[first.name]
    assert cell.is_complete
    assert cell.arm_rates["batchnorm"] == (0.1, 0.3, 1.0)
    final, early = bank.at_lengths(first.name)
    assert (final.name, early.name) == (first.name, f"{first.name}-early") == tuple(bank.grid)
    assert "max_steps=80" in final.overrides
    assert final.labels["updates"] == "80"
    assert "max_steps=10" in early.overrides
    assert early == cell.at_length("early", 8)


def chosen(**choices):
    """A stratum that chooses more."""
    mlp = TINY["strata"]["mlp"]
    return {"strata": {"mlp": mlp | {"choose": mlp["choose"] | choices}}}


LENGTH = TINY["length"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": 0}, "settings=0: must be at least 1"),
        ({"strata": {}}, "strata=.*: must be a list of at least 1"),
        ({"strata": {"mlp": {"share": 1}}}, "strata.mlp.choose must choose model"),
        ({"choose": TINY["choose"] | {"w": {"key": "a", "low": 0, "high": 2}}}, "choose.w.low=0: must be above 0"),
        (chosen(w={"key": "a", "low": 4, "high": 2}), "choose.w: high=2 is below low=4; swap them"),
        (chosen(w={"key": "a", "low": 8}), "choose.w.high: is missing"),
        (chosen(w={"key": "a", "values": []}), r"choose.w.values=\[\]: must be a list of at least 1"),
        (chosen(w={}), r"choose.w=\{\}: must be a list of at least 1"),
        (chosen(w=5), "choose.w=5: must be keys with values"),
        (chosen(w={"by": "depht"}), "by=depht: no choice for"),
        (chosen(w={"by": "x", "1": {"a": []}}, x={"by": "w", "1": {"a": []}}), "by=x: no choice for"),
        (chosen(w={"by": "batch size", "8": {"a": []}}), "by=batch size: no choice for"),
        (chosen(w={"by": "optimizer", "SGD": {"a": []}}), "by=optimizer: no choice for AdamW"),
        ({"length": LENGTH | {"early": 1}}, "length.early=1: must be above 1"),
        ({"length": LENGTH | {"updates": 0.4}}, "length.updates=0.4: must be a whole number"),
        ({"rates": TINY["rates"] | {"SGD": [0.3, 0.1, 0.03]}}, "rates.SGD=.*: must be three or more that rise"),
        ({"other": 1}, "other: no such key"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(tmp_path, change, message):
    with refused(message):
        load_bank(write(tmp_path, TINY | change))


def test_networks_before_training_need_no_pilots(tmp_path):
    """A bank without lengths, rates and grid: its settings are looked at as they are drawn."""
    models = [cell.labels["model"] for cell in load_bank("networks").cells.values()]
    assert (len(models), models.count("MLP")) == (200, 80)
    with refused("grid is missing"):
        load_bank(write(tmp_path, {key: value for key, value in TINY.items() if key != "grid"}))


NODE = TINY | {"settings": 1, "shared": ["recipe=plain", "trainer=cpu", "model.width=8"]}
NODE |= {"length": TINY["length"] | {"learned": 0.2, "seconds": 20}}


@pytest.mark.integration
def test_pilots_of_a_tiny_population_are_written_once(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(NODE))
    command = [sys.executable, "scripts/research/pilots.py", str(path), "--out", str(tmp_path / "out")]

    def pilots():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout, pilots_file(path).read_text()

    _, written = pilots()
    (cell,) = load_bank(path).cells.values()
    assert cell.is_complete
    assert cell.updates >= 20
    assert set(cell.arm_rates) == {"none", "batchnorm"}
    told, again = pilots()
    assert "1 settings have pilots" in told
    assert again == written
