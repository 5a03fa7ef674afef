"""Ten verdicts counted again from the tables alone, with nothing of normexp: `python scripts/research/recount.py`.

Prints each number beside the kept one (tests/frozen/verdicts.json, docs/verdicts.md); exits 1 where one differs.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import yaml
from scipy import stats

ROWS = ("P08", "P06a", "P10b", "P01a", "S22", "S90", "S91", "S32", "P05h", "S21")
ROOT = Path(__file__).parents[2]
RESULT, KEPT = ROOT / "docs/data/recount.json", json.loads((ROOT / "tests/frozen/verdicts.json").read_text())
CLAIMS = [yaml.safe_load_all(file.read_text()) for file in (ROOT / "configs/claims").glob("*.yaml")]
CLAIMS = {claim["id"]: claim for claims in CLAIMS for claim in claims if claim}
PILOTS = (ROOT / "configs/banks/drawn.pilots.jsonl").read_text().splitlines()
FACTS = {pilot["setting"]: pilot for pilot in map(json.loads, PILOTS) if "ends" in pilot}
RUNS = pd.read_parquet(ROOT / "docs/evidence/runs.parquet").rename(columns={"train_loss": "train/loss"})
VALUES = pd.read_parquet(ROOT / "docs/evidence/values.parquet")
PAGE = (ROOT / "docs/verdicts.md").read_text().splitlines()
REGISTRY = (ROOT / "docs/evidence/registry.jsonl").read_text()


def rows_of(claim: dict) -> pd.DataFrame:
    """The runs or values that a claim counts."""
    if (
        claim["evidence"] == "training"
    ):  # all rates of equal runs; of a run that is there twice, what was asked for
        mine = RUNS["asked_by"].astype(str).str.contains(rf"\b{claim['id']}:")
        rows = RUNS.assign(other=~mine).merge(
            RUNS.loc[mine, ["setting", "overrides", "seed"]].drop_duplicates()
        )
        return rows.sort_values(["other", "run"]).drop_duplicates(["setting", "overrides", "seed", "lr"])
    rows = VALUES[VALUES["claim"] == claim["id"]].assign(error=np.nan)  # equal networks count once
    wide = rows.pivot_table("value", "setting", ["part", "arm", "seed"], observed=True).drop_duplicates()
    return rows[rows["setting"].isin(wide.index) & (rows["part"] == "")]


def best(claim: dict, rows: pd.DataFrame, arm: str, level: int, facts: dict) -> pd.DataFrame:
    """One row a seed, the run at its own best rate. A failed run is a guess, where guessing has a value."""
    if claim["evidence"] != "training":
        return rows[rows["arm"] == arm].set_index("seed")
    others = set().union(*claim["arms"].values()) - set(claim["arms"][arm])
    words = {*claim["arms"][arm], *[f"{key}={level}" for key in claim.get("factor", {})]}
    rows = rows[
        [words <= x and not others & x for x in rows["overrides"].astype(str).str.split("\n").map(set)]
    ]
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
    """The mean effect over seeds, no number if nothing trained; and the error of the baseline."""
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
    if not facts["ends"]:  # a network at initialization
        return False
    ends = pd.DataFrame(facts["ends"]).T
    return ends["val_loss"].min() < facts.get("learned_loss", 0) or ends["train_accuracy"].max() > 0.95


def said_of(true: pd.Series, level: float = 0.95) -> tuple:
    return true.sum(), len(true), *stats.binomtest(int(true.sum()), len(true)).proportion_ci(level)


def count(claim: dict, comparison: dict) -> tuple[dict, list[str]]:
    """What a row says of one comparison: numbers, and words as the page has them."""
    sign = -1 if comparison["kind"] == "smaller" else 1
    rows_before = REGISTRY.count(f'"{claim["id"]} {claim["settings"]["bank"]}"') - 1
    level = 1 - 0.05 / 2**rows_before  # each amendment halves
    table = pd.DataFrame(columns=["number", "side", "learned"])
    for name, rows in rows_of(claim).groupby("setting", observed=True):
        facts = FACTS.get(name.removesuffix("-early"), {"ends": {}})
        number, error = effect(claim, comparison, rows, facts)
        practical = 0.003 if error < 0.03 else error / 10 if error <= 0.1 else 0.01
        margin = practical if comparison.get("margin") == "practical" else comparison.get("margin", 0)
        side = "beyond" if sign * number > margin else "opposite" if sign * number < -margin else "within"
        table.loc[name] = [number, "failed" if np.isnan(number) else side, learned(facts)]
    asked = table.dropna().sort_values("number")
    true = asked["side"] == ("within" if comparison["kind"] == "equivalent" else "beyond")
    numbers, rank = (
        asked["number"],
        int(stats.binom.ppf((1 - level) / 2, len(asked), 0.5)),
    )  # of the sign test
    own = {"n": len(table), "holds": true.sum(), "median": numbers.median(), "settings": table["number"]}
    own |= {side: (table["side"] == side).sum() for side in ("failed", "beyond", "within", "opposite")}
    own["median_interval"] = numbers.iloc[[rank - 1, -rank]].tolist()
    _, _, low, high = said_of(true, level)
    word = "supported" if low > 0.5 else "refuted" if high < 0.5 else "undecided"
    word = "divided" if 0.25 <= low <= 0.5 <= high <= 0.75 else word
    said = [f"| {word} | {stats.binomtest(int(true.sum()), len(true)).pvalue:.3g} |"]
    said += [f"share {true.mean():.2f} ({low:.2f} to {high:.2f})"]
    for true_of, name in (
        (asked["learned"], "where networks learn"),
        (~asked["learned"], "where they do not"),
    ):
        if claim["evidence"] == "training":
            holds, n, low, high = said_of(true[true_of])
            said.append(f"{name} {holds} of {n} ({low:.2f} to {high:.2f})")
    if comparison["kind"] != "equivalent":
        claimed, nonzero = int((sign * numbers > 0).sum()), int((numbers != 0).sum())
        p = stats.binomtest(claimed, nonzero).pvalue
        said.append(
            f"the sign is the claimed one in {claimed} of {len(asked)} (p {f'{p:.2g}' if p >= 0.001 else '< 0.001'})"
        )
    return own, said


def differences(name: str) -> list[str]:
    """What differs from the kept verdict and from its row of the page."""
    claim, kept, found = CLAIMS[name], KEPT[name], []
    page = " ".join(line for line in PAGE if re.match(rf"\| {name}(, part \d)? \|", line))
    parts = claim["comparison"] if isinstance(claim["comparison"], list) else [claim["comparison"]]
    for comparison, theirs in zip(parts, kept["comparisons"], strict=True):
        own, said = count(claim, comparison)
        print(name, *[f"{key} {own[key]}" for key in ("n", "holds", "failed", "median")], "|", *said)
        settings = own.pop("settings")
        if comparison is parts[0]:
            their_settings = pd.Series(
                {key: value for key, (value, _) in kept["settings"].items()}, dtype=float
            )
            apart = (settings - their_settings).abs() > 1e-4 * their_settings.abs() + 1e-7
            found += [
                f"{name} {key}: {settings[key]}, kept {their_settings[key]}" for key in apart[apart].index
            ]
            found += [
                f"{name} {key}: not in both"
                for key in settings.index.symmetric_difference(their_settings.index)
            ]
        found += [f"{name} {key}: {own[key]}, kept {theirs[key]}" for key in own
                  if not np.allclose(own[key], theirs[key], rtol=1e-5)]  # fmt: skip
        found += [f"{name}: not on the page: {words}" for words in said if words.lower() not in page.lower()]
    return found


if __name__ == "__main__":
    found = [line for name in ROWS for line in differences(name)]
    earlier = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    RESULT.write_text(json.dumps(earlier | {"recount": {"rows": ROWS, "differences": found}}) + "\n")
    print(*found, sep="\n")
    sys.exit(bool(found))
