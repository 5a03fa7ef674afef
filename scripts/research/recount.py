"""Ten verdicts counted again from the tables alone, with nothing of normexp: `python scripts/research/recount.py`.

Prints each number beside the kept one (tests/frozen/verdicts.json.xz, docs/verdicts.md); exits 1 where one differs.
"""

# mypy: ignore-errors
import json
import lzma
import re
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from scipy import stats

ROWS = ("P08", "P06a", "P10b", "P01a", "S22", "S90", "S91", "S32", "P05h", "S21")
ROOT = Path(__file__).parents[2]
RESULT = ROOT / "docs/data/recount.json"
KEPT = json.loads(lzma.decompress((ROOT / "tests/frozen/verdicts.json.xz").read_bytes()))
CLAIMS = [yaml.safe_load_all(file.read_text()) for file in (ROOT / "configs/claims").glob("*.yaml")]
CLAIMS = {claim["id"]: claim for claims in CLAIMS for claim in claims if claim}
PILOTS = (ROOT / "configs/banks/drawn.pilots.jsonl").read_text().splitlines()
FACTS = {pilot["setting"]: pilot for pilot in map(json.loads, PILOTS) if "ends" in pilot}
RUNS = pd.read_parquet(ROOT / "docs/evidence/runs.parquet").rename(columns={"train_loss": "train/loss"})
VALUES = pd.read_parquet(ROOT / "docs/evidence/values.parquet")
PAGE = (ROOT / "docs/verdicts.md").read_text().splitlines()
REGISTRY = (ROOT / "docs/evidence/registry.jsonl").read_text()


def rows_of(claim: dict) -> pd.DataFrame:
    if claim["evidence"] == "training":
        mine = RUNS["asked_by"].astype(str).str.contains(rf"\b{claim['id']}:")
        cells = RUNS.loc[mine, ["setting", "overrides", "seed"]].drop_duplicates()
        rows = RUNS.assign(other=~mine).merge(cells)  # all rates of equal runs; of doubles that asked for
        return rows.sort_values(["other", "run"]).drop_duplicates(["setting", "overrides", "seed", "lr"])
    rows = VALUES[VALUES["claim"] == claim["id"]].assign(error=np.nan)  # equal networks count once
    wide = rows.pivot_table("value", "setting", ["part", "arm", "seed"], observed=True).drop_duplicates()
    return rows[rows["setting"].isin(wide.index) & (rows["part"] == "")]


def best(claim: dict, rows: pd.DataFrame, arm: str, level: int, facts: dict) -> pd.DataFrame:
    """One row a seed, the run at its own best rate. A failed run is a guess, where guessing has a value."""
    if claim["evidence"] != "training":
        return rows[rows["arm"] == arm].set_index("seed")
    others = set().union(*claim["arms"].values()) - set(claim["arms"][arm])
    overrides = {*claim["arms"][arm], *[f"{key}={level}" for key in claim.get("factor", {})]}
    lines = rows["overrides"].astype(str).str.split("\n").map(set)
    rows = rows[[overrides <= line and not others & line for line in lines]]
    failed, guess = rows["failed"], 1 - facts["chance"]
    value = error = (1 - rows["test_accuracy"]).mask(failed, guess)
    order = (1 - rows["val_accuracy"]).mask(failed, guess)  # equal ones by validation loss
    if claim["metric"] == "train/loss":  # by the loss that is compared
        value = order = rows["train/loss"].mask(failed, facts["guess_loss"])
    elif claim["metric"] != "test/error":  # one rate; a guess has no value
        value = rows[claim["metric"]].mask(failed)
    rows = rows.assign(value=value, order=order, error=error).sort_values(["order", "val_loss"])
    return rows.groupby("seed").head(1).set_index("seed")


def effect(claim: dict, comparison: dict, rows: pd.DataFrame, facts: dict) -> tuple[float, float]:
    levels = next(iter(claim.get("factor", {"": [1]}).values()))
    sides, failed = [], []
    for arm in [comparison[key] for key in ("arm", "baseline") if key in comparison]:
        runs = [best(claim, rows, arm, level, facts) for level in levels]
        table = pd.concat([run["value"] for run in runs], axis=1)
        table = np.log(table) if comparison.get("log") else table
        sides.append(table.mean(axis=1))
        if comparison["kind"] == "increasing":
            sides[-1][:] = np.polyfit(np.log2(levels), table.T, 1)[0]
        failed += [run["failed"].all() for run in runs]
    each = sides[0] - (sides[1] if len(sides) > 1 else 0)
    return np.nan if all(failed) else each.mean(), runs[0]["error"].mean()


def learned(facts: dict) -> bool:
    ends = facts["ends"].values()
    text = min(end["val_loss"] for end in ends) < facts.get("learned_loss", 0)
    return text or max(end["train_accuracy"] for end in ends) > 0.95


def share(true: pd.Series, level: float = 0.95) -> list[float]:
    return [*stats.binomtest(int(true.sum()), len(true)).proportion_ci(level)]


def count(claim: dict, comparison: dict) -> tuple[dict, list[str]]:
    sign = -1 if comparison["kind"] == "smaller" else 1
    level = 1 - 0.05 / 2 ** (REGISTRY.count(f'"{claim["id"]} {claim["settings"]["bank"]}"') - 1)  # amendments
    table = pd.DataFrame(columns=["number", "side"])
    for name, rows in rows_of(claim).groupby("setting", observed=True):
        number, error = effect(claim, comparison, rows, FACTS.get(name.removesuffix("-early"), {}))
        practical = 0.003 if error < 0.03 else error / 10 if error <= 0.1 else 0.01
        margin = practical if comparison.get("margin") == "practical" else comparison.get("margin", 0)
        side = "beyond" if sign * number > margin else "opposite" if sign * number < -margin else "within"
        table.loc[name] = [number, "failed" if np.isnan(number) else side]
    asked = table.dropna().sort_values("number")
    true = asked["side"] == ("within" if comparison["kind"] == "equivalent" else "beyond")
    numbers, rank = asked["number"], int(stats.binom.ppf((1 - level) / 2, len(asked), 0.5))
    found = {"n": len(table), "holds": true.sum(), "settings": table["number"].sort_index()}
    found |= {side: (table["side"] == side).sum() for side in ("failed", "beyond", "within", "opposite")}
    found |= {"median": numbers.median(), "median_interval": numbers.iloc[[rank - 1, -rank]].tolist()}
    low, high = share(true, level)
    word = "supported" if low > 0.5 else "refuted" if high < 0.5 else "undecided"
    word = "divided" if 0.25 <= low <= 0.5 <= high <= 0.75 else word
    phrases = [f"| {word} | {stats.binomtest(int(true.sum()), len(true)).pvalue:.3g} |"]
    phrases.append(f"share {true.mean():.2f} ({low:.2f} to {high:.2f})")
    if comparison["kind"] != "equivalent":
        claimed, signs = (numbers * sign > 0).sum(), (numbers != 0).sum()
        p = stats.binomtest(int(claimed), int(signs)).pvalue
        p_text = f"{p:.2g}" if p >= 0.001 else "< 0.001"
        phrases.append(f"is the claimed one in {claimed} of {signs} (p {p_text})")
    if claim["evidence"] == "training":
        for yes, half in true.groupby(lambda name: learned(FACTS[name.removesuffix("-early")])):
            where, ends = "networks learn" if yes else "they do not", share(half)
            phrases.append("{} {} of {} ({:.2f} to {:.2f})".format(where, half.sum(), len(half), *ends))
    return found, phrases


if __name__ == "__main__":
    result = {}
    for name, part in [(row, part) for row in ROWS for part in range(len(KEPT[row]["comparisons"]))]:
        found, phrases = count(CLAIMS[name], np.atleast_1d(CLAIMS[name]["comparison"])[part])
        kept = KEPT[name]["comparisons"][part]
        numbers = {row["name"]: row["number"] for row in kept["settings"]}
        kept |= {"settings": pd.Series(numbers, dtype=float).sort_index()}
        row = " ".join(line for line in PAGE if re.match(rf"\| {name}(, part \d)? \|", line)).lower()
        apart = [key for key in found if not np.allclose(found[key], kept[key], 1e-4, 1e-9, equal_nan=True)]
        apart += [phrase for phrase in phrases if phrase not in row]
        numbers = {key: np.round(x, 6).tolist() for key, x in found.items() if key != "settings"}
        print(name, part + 1, *[f"{key} {x} (kept {kept[key]})" for key, x in numbers.items()], *phrases)
        print("  differ:" if apart else "  as kept", *apart)
        result[f"{name} {part + 1}"] = numbers | {"said": phrases, "differ": apart}
    RESULT.write_text(json.dumps(json.loads(RESULT.read_text()) | {"recount": result}) + "\n")
    raise SystemExit(any(row["differ"] for row in result.values()))
