"""The kept runs that pages, figures and bare loops read from docs/evidence, with nothing of normexp."""

from pathlib import Path

import numpy as np
import pandas as pd
import yaml

DOCS = Path(__file__).parents[2] / "docs"
WORDS = [  # of a plan's runs, as they were written; one that is left out is the configuration's default
    "model", "data", "optimizer", "batch_size", "model.depth", "model.activation", "model.norm_position",
    "norm.affine", "schedule.warmup_steps",
]  # fmt: skip


def runs_of(*plans: str) -> pd.DataFrame:
    """The runs of plans of docs/studies/two_questions, with their words as columns."""
    runs = pd.read_parquet(DOCS / "evidence" / "runs.parquet")
    runs = runs[runs["asked_by"].isin([f"plan:{name}" for name in plans])].dropna(axis=1, how="all")
    runs = runs.astype({"bank": str, "setting": str, "norm": str, "overrides": str})
    overrides = [dict(line.split("=", 1) for line in text.split("\n")) for text in runs["overrides"]]
    return runs.join(pd.DataFrame(overrides, runs.index).reindex(columns=WORDS))


def judging_runs(*plans: str) -> pd.DataFrame:
    """Without seed 0, which chose the rates."""
    return runs_of(*plans).query("seed > 0")


def right_answers(runs: pd.DataFrame) -> dict[int, np.ndarray]:
    """Number of a run -> 1 for each test answer that is right, else 0, where they are kept."""
    kept = np.load(DOCS / "evidence" / "tests.npz")
    found: dict[int, np.ndarray] = {}
    settings = {f"{bank}.{setting}" for bank, setting in zip(runs["bank"], runs["setting"], strict=True)}
    for name in kept.files:
        setting, examples, part = name.rsplit(".", 2)
        if part == "run" and setting in settings:
            bits = np.unpackbits(kept[f"{setting}.{examples}.right"], axis=1, count=int(examples))
            found |= dict(zip(kept[name].tolist(), bits.astype(np.int8), strict=True))
    return found


def best_runs(name: str) -> pd.DataFrame:
    """The kept run of each arm, setting, length and seed of a claim of the studies, at the rate with the best
    validation accuracy (the least loss where two are equal): run, arm, setting, steps, seed, lr, accuracy."""
    files = (DOCS / "studies").glob("*/claims/*.yaml")
    claims = {claim["id"]: claim for file in files for claim in yaml.safe_load_all(file.read_text())}
    claim, rows = claims[name], pd.read_parquet(DOCS / "evidence" / "runs.parquet")
    rows = rows[rows["asked_by"].astype(str).str.contains(rf"\b{name}:")]
    # Of the arms whose words a run has, its own is that with the most.
    arms = sorted(claim["arms"].items(), key=lambda arm: -len(arm[1]))
    lines = [{*text.split("\n")} for text in rows["overrides"].astype(str)]
    rows = rows.assign(arm=[next(arm for arm, overrides in arms if {*overrides} <= line) for line in lines])
    measure = "test_accuracy" if claim["metric"] == "test/error" else claim["metric"]
    rows = rows.assign(accuracy=rows[measure]).sort_values(
        ["val_accuracy", "val_loss"], ascending=[False, True]
    )
    if isinstance(claim["settings"], list) and len(claim["settings"]) == 1:
        rows = rows.assign(setting=claim["settings"][0])  # an equal network may be kept under another name
    rows = rows.astype({"setting": str}).groupby(["arm", "setting", "steps", "seed"]).head(1)
    return rows[["run", "arm", "setting", "steps", "seed", "lr", "accuracy"]]
