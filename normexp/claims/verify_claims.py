"""From selected claims to verdicts on disk and a paragraph each on the screen."""

import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from normexp.claims.evidence import functions, parallel, training_runs
from normexp.claims.evidence.claim_progress import Progress, to_train
from normexp.claims.evidence.cost import plan_text, run_count
from normexp.claims.evidence.kept import keep
from normexp.claims.judge.verdict import (
    UNTUNED,
    VERDICT,
    make_verdict,
    untestable,
    write_verdict,
)
from normexp.claims.judge.verdict_text import paragraph, section
from normexp.claims.pages.claim_figure import draw
from normexp.claims.pages.forest_figure import draw_forest
from normexp.claims.spec.claim import Claim
from normexp.claims.verify_settings import over_settings
from normexp.report.style import Style


def verify_all(
    claims: list[Claim],
    out: Path,
    *,
    tuned: bool,
    command: str,
    workers: int = 1,
    keep_in: Path | None = None,
) -> int:
    """Print the plan, then verify the claims. `workers` training claims run at a time. Returns the exit status: 0 for
    any verdicts, 1 if a claim failed to run; such claims are named at the end. `keep_in` is a folder for values."""
    words: dict[str, int] = {}
    failed: list[str] = []
    start = time.perf_counter()
    print(plan(claims, out, tuned=tuned), flush=True)
    for claim, verdict in _outcomes(
        claims, workers, functools.partial(_verify, out, tuned, command, keep_in)
    ):
        if isinstance(verdict, str):
            failed.append(f"{claim.id}: {verdict}")
            continue
        if claim.evidence == "none":
            print(f"\n{claim.id}  CANNOT BE TESTED: {claim.sentence}\n    {claim.reason}", flush=True)
            continue
        words[verdict["verdict"]] = words.get(verdict["verdict"], 0) + 1
        print(f"\n{paragraph(verdict)}", flush=True)
        if verdict["untuned"]:
            print(f"    {beside_tuned(out / claim.id)}")
        print(f"    {folder_of(claim, out, tuned) / VERDICT}", flush=True)
    counts = ", ".join(f"{count} {word}" for word, count in words.items())
    print(f"\n{counts or 'nothing was tested'}; {time.perf_counter() - start:.0f} s")
    for line in failed:
        print(f"Error: {line}", file=sys.stderr)
    return 1 if failed else 0


def _outcomes(
    claims: list[Claim], workers: int, verify: Callable[[Claim], dict[str, Any]]
) -> Iterator[parallel.Outcome]:
    training_claims = [claim for claim in claims if claim.evidence == "training"]
    together = training_claims if workers > 1 and len(parallel.groups(training_claims)) > 1 else []
    for claim in claims:
        if claim not in together:
            yield claim, parallel.outcome(claim, verify)
    if together:
        yield from parallel.outcomes(together, workers, verify)


def _verify(out: Path, tuned: bool, command: str, keep_in: Path | None, claim: Claim) -> dict[str, Any]:
    command = command.format(id=claim.id)
    if claim.evidence == "none":
        verdict = untestable(claim, command)
        write_verdict(out / claim.id, verdict)
        return verdict
    return verify(claim, out, tuned=tuned, command=command, keep_in=keep_in)


def plan(claims: list[Claim], out: Path, *, tuned: bool) -> str:
    """The plan, without the runs that are in the cache."""
    missing = {}
    for claim in claims:
        if claim.evidence == "training" and not claim.settings:
            asked = claim if tuned else dataclasses.replace(claim, tune=None)
            try:
                missing[claim.id] = to_train(asked, training_runs.Runs(asked, out / "cache"))
            except Exception:  # the error is reported when the claim is verified
                missing[claim.id] = run_count(asked)
    return plan_text(claims, missing)


def verify(
    claim: Claim, out: Path, *, tuned: bool, command: str, keep_in: Path | None = None
) -> dict[str, Any]:
    """Gather a claim's evidence, judge it, and write `verdict.json`, `evidence.csv`, `figure.png`, `section.md`. Write
    the evidence to commit into `keep_in`, unless the ledger of the bank has it.

    The verdict without tuning has its own folder. It never replaces the tuned one.
    """
    start = time.perf_counter()
    folder = folder_of(claim, out, tuned)
    untuned = folder.name == UNTUNED
    if untuned:  # a protocol of its own, so that its verdict is not taken for the claim's
        claim, command = dataclasses.replace(claim, tune=None), f"{command} tune=none"
    if claim.settings:
        table, verdict = over_settings(claim)
    elif claim.evidence == "training":
        table, verdict = from_training(claim, out, command)
    else:
        table = functions.gather(claim, claim.looks[-1])
        verdict = make_verdict(claim, table, looks=1, extra={})
    verdict |= {"untuned": untuned, "seconds": round(time.perf_counter() - start, 2), "command": command}
    write_verdict(folder, verdict)
    table.to_csv(folder / "evidence.csv", index=False)
    if claim.settings:
        draw_forest(verdict, folder / "figure.png")
    else:
        draw(table, verdict, folder / "figure.png", Style(list(dict.fromkeys(table["arm"]))).colour)
    (folder / "section.md").write_text(section(verdict))
    if keep_in and not untuned and not (claim.settings and claim.evidence == "training"):
        keep(keep_in, claim, table, verdict)
    return verdict


def folder_of(claim: Claim, out: Path, tuned: bool) -> Path:
    """The folder of a claim's verdict. The verdict without tuning lies in a folder below."""
    return out / claim.id / UNTUNED if claim.tune and not tuned else out / claim.id


def beside_tuned(folder: Path) -> str:
    """A sentence on the same claim's verdict with tuned learning rates."""
    try:
        word = json.loads((folder / VERDICT).read_text())["verdict"].upper()
    except FileNotFoundError:
        return f"with each arm's own learning rate: not yet known; leave tune=none out for {folder / VERDICT}"
    return f"with each arm's own learning rate: {word} ({folder / VERDICT})"


def from_training(claim: Claim, out: Path, command: str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Add seeds look by look until the claim is decided or its budget ends."""
    runs = training_runs.Runs(claim, out / "cache", command=command)
    runs.report = Progress(claim, runs, to_train(claim, runs))
    rates = training_runs.tune(claim, runs) if claim.tune else None
    chosen = {f"{arm} {level}".strip(): lr for (arm, level), lr in (rates or {}).items()}
    for seeds in claim.looks:
        table = training_runs.gather(claim, runs, rates, claim.seed_range(seeds))
        verdict = make_verdict(claim, table, looks=len(claim.looks), extra={})
        if verdict["verdict"] != "inconclusive":
            break
    edges = (min(claim.tune["lr"]), max(claim.tune["lr"])) if claim.tune and chosen else ()
    verdict |= {
        "learning_rates": chosen or "as in the yaml, or the optimizer's own, in every arm",
        # For these the grid may be too narrow.
        "learning_rates_at_edge": [arm for arm, lr in chosen.items() if lr in edges],
        "runs": {
            "trained": runs.trained,
            "from_cache": runs.reused,
            "training_seconds": round(runs.seconds, 1),
        },
    }
    return table, verdict
