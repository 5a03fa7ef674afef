"""How often `normexp compare` errs: 20,000 pairs of equal arms (1,000 of fewer than five seeds), and 1,000 whose
difference is twice the margin, of each kind of noise and number of seeds. `python scripts/research/compare_errors.py
train` trains the public networks, of which no bank has one; without a word the rates are computed and written to
docs/data/compare_errors.json."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from normexp.claims.judge.estimate import ALPHA
from normexp.claims.judge.outcomes import Outcomes
from normexp.compare.effect import Effect, effect_of
from normexp.compare.judged import BETTER, OPEN, WORSE, p_of, word_of
from normexp.runs.table import FEWEST_SEEDS

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "data" / "compare_errors.json"
MNIST = Path("data/mnist")  # a link to the files, below the present folder
EQUAL_PAIRS, TWIN_PAIRS, PAIRS, SEEDS = 20_000, 400_000, 1000, (1, 2, 5, 20)
LOOKS = (5, 10, 20, 40, 80)
NETWORKS = ("shufflenet_v2_x0_5", "mobilenet_v3_small")
RUNS = 16  # of each network


def train(name: str, seed: int) -> float:
    """The test error of a public network after a pass over 960 images of 32x32 (MNIST)."""
    import torch
    import torchvision

    names = ("images-idx3", "labels-idx1")
    raw = [gzip.decompress((MNIST / f"train-{name}-ubyte.gz").read_bytes()) for name in names]
    x = torch.tensor(np.frombuffer(raw[0], np.uint8, 1960 * 784, 16).reshape(-1, 1, 28, 28) / 255 - 0.5)
    x = torch.nn.functional.pad(x.float(), (2, 2, 2, 2)).repeat(1, 3, 1, 1)
    y = torch.tensor(np.frombuffer(raw[1], np.uint8, 1960, 8).astype(int))
    torch.manual_seed(seed)
    network = torchvision.models.get_model(name, num_classes=10)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    for batch in torch.randperm(960).split(32):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
        optimizer.step()
    network.train()  # by statistics of the batch, as the running ones are of 30 steps
    with torch.no_grad():
        return float((network(x[960:]).argmax(1) != y[960:]).float().mean())


def pools(trained: dict[str, list[float]]) -> dict[str, list[np.ndarray]]:
    """Kind of noise -> values of equal runs, each pool of mean 0 and standard deviation 1; none for formulas."""
    rows = pd.read_parquet(ROOT / "docs" / "evidence" / "runs.parquet")
    rows = rows[rows["status"] == "completed"]
    kept = [
        runs["test_accuracy"].to_numpy()
        for _, runs in rows.groupby(["overrides", "lr"])
        if runs["seed"].nunique() >= 12
    ]
    every = {"kept runs, by seeds": kept, "public networks": [*map(np.array, trained.values())]}
    return {
        kind: [(pool - pool.mean()) / pool.std(ddof=1) for pool in found if np.ptp(pool) > 0]
        for kind, found in every.items()
    }


def pair(
    kind: str,
    pools: dict[str, list[np.ndarray]],
    n: int,
    *,
    paired: bool,
    shift: float,
    draw: np.random.Generator,
) -> np.ndarray:
    """(2, n) two arms of n seeds. If they pair, half of their variance is common. Of a pool that is large enough
    no run is drawn twice: two draws that share runs would differ less than two arms do."""
    if kind in pools:
        pool = pools[kind][draw.integers(len(pools[kind]))]
        both = draw.permutation(pool)[: 2 * n] if 2 * n <= len(pool) else draw.choice(pool, 2 * n)
    else:
        formulas = {
            "normal": lambda: draw.normal(size=2 * n),
            "skewed (lognormal)": lambda: (draw.lognormal(0, 1, 2 * n) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e),
            "heavy tails (t, 3)": lambda: draw.standard_t(3, 2 * n) / np.sqrt(3),
        }  # fmt: skip
        both = formulas[kind]()
    return both.reshape(2, n) + [[0.0], [shift]] + (draw.normal(size=n) if paired else 0.0)


def effect(arms: np.ndarray, *, paired: bool) -> Effect:
    """The difference of two arms (2, n), as compare takes it."""
    a, b = (Outcomes(np.arange(len(values)), values, np.zeros(len(values), bool)) for values in arms)
    return effect_of(b, a, paired=paired)


def word(found: Effect, margin: float, looks: int = 1) -> str:
    """The word that compare gives to it."""
    return word_of(found.mean.effect, margin) if p_of(found, margin) <= ALPHA / looks else OPEN


def rates(kind: str, found: dict[str, list[np.ndarray]], *, paired: bool) -> dict:
    """Wrong words of equal arms with no margin and one of half a standard deviation; and of arms that differ by twice a
    margin of one half: how many are decided with so many seeds, how many wrongly, and the median of the seeds."""
    draw = np.random.default_rng(0)
    row: dict[str, Any] = {"noise": kind, "paired": paired, "equal": {}, "decided": {}}
    for n in SEEDS:
        wrong = {0.0: 0, 0.5: 0}
        pairs = EQUAL_PAIRS if n >= FEWEST_SEEDS else PAIRS  # fewer seeds have no word
        for _ in range(pairs):
            measured = effect(pair(kind, found, n, paired=paired, shift=0.0, draw=draw), paired=paired)
            for margin in wrong:
                wrong[margin] += word(measured, margin) in (BETTER, WORSE)
        row["equal"][n] = [round(100 * count / pairs, 2) for count in wrong.values()]
    taken, mistaken = [], 0
    for _ in range(PAIRS):
        arms = pair(kind, found, LOOKS[-1], paired=paired, shift=1.0, draw=draw)
        for n in LOOKS:
            decision = word(effect(arms[:, :n], paired=paired), 0.5, len(LOOKS))
            if decision != OPEN:
                mistaken += decision != WORSE
                break
        taken.append(n if decision != OPEN else np.inf)
    row["decided"] = {n: round(100 * float(np.mean(np.array(taken) <= n)), 1) for n in LOOKS}
    middle = float(np.median(taken))
    median = int(middle) if middle < np.inf else None
    return row | {"mistaken": round(100 * mistaken / PAIRS, 1), "median seeds": median}


def twins(networks: list[np.ndarray]) -> dict[str, float]:
    """False words in % with no margin, of many pairs and by scipy's tests: of 5 seeds of each public network that pair,
    and of 5 normal values against 20."""
    draw, found = np.random.default_rng(1), {}
    for name, pool in zip(NETWORKS, networks, strict=True):
        runs = draw.permuted(np.tile(pool, (TWIN_PAIRS, 1)), axis=1)
        found[f"{name}, 5 pairs"] = stats.ttest_rel(runs[:, :5], runs[:, 5:10], axis=1).pvalue
    few, many = draw.normal(size=(TWIN_PAIRS, 5)), draw.normal(size=(TWIN_PAIRS, 20))
    found["normal, 5 against 20"] = stats.ttest_ind(few, many, axis=1, equal_var=False).pvalue
    return {name: round(100 * float((p <= ALPHA).mean()), 2) for name, p in found.items()}


def main() -> None:
    """See the module."""
    kept = json.loads(OUT.read_text()) if OUT.exists() else {"networks": {}, "rows": []}
    if "train" in sys.argv:
        for seed in range(RUNS):
            for name in NETWORKS:
                done = kept["networks"].setdefault(name, [])
                if len(done) <= seed:
                    done.append(round(train(name, seed), 6))
                    OUT.write_text(json.dumps(kept, indent=1) + "\n")
        return
    found = pools(kept["networks"])
    kinds = [*(kind for kind in found if found[kind]), "normal", "skewed (lognormal)", "heavy tails (t, 3)"]
    kept |= {"equal pairs": EQUAL_PAIRS, "pairs": PAIRS, "twins": twins(found["public networks"]), "rows": []}
    for kind in kinds:
        for paired in (True, False):
            kept["rows"].append(rates(kind, found, paired=paired))
            print(kept["rows"][-1], flush=True)
    OUT.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
