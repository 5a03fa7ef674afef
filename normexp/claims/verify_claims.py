"""From selected claims to verdicts on disk and a paragraph each on the screen."""

import dataclasses
import json
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from normexp.claims.claim_means import write_claim_means
from normexp.claims.evidence import functions
from normexp.claims.evidence.asking import Asking, Evidence, asking
from normexp.claims.evidence.cost import plan_text, run_count
from normexp.claims.evidence.kept import keep
from normexp.claims.evidence.search import search
from normexp.claims.evidence.subjects import import_data
from normexp.claims.fork_map import fork_map
from normexp.claims.judge import judge
from normexp.claims.judge.verdict import (
    UNTUNED,
    VERDICT,
    untestable,
    write_verdict,
)
from normexp.claims.judge.verdict_text import WIDTH, paragraph, section
from normexp.claims.outcome import outcome
from normexp.claims.pages.figure import draw
from normexp.claims.spec.claim import Claim
from normexp.claims.train_claims import Training, train_one
from normexp.claims.verify_settings import over_settings
from normexp.machine import cores
from normexp.sweeps.options import Options


def verify_all(
    claims: list[Claim],
    out: Path,
    *,
    tuned: bool,
    command: str,
    options: Options | None = None,
    keep_in: Path | None = None,
) -> int:
    """Print the plan, then verify the claims; the runs that are missing go through the engine. A claim that fails to
    run is named at the end and makes the exit status 1; any verdict makes it 0. Exits with 128 and the signal when
    interrupted.

    Args:
        command: to reproduce a claim, with `{id}` in place of its own.
        options: where and how runs are trained.
        keep_in: where the values of claims are kept.
    """
    start, options = time.perf_counter(), options or Options()
    words: dict[str, int] = {}
    asking = [_asking(claim, out, tuned, command) for claim in claims if trains(claim)]
    training = Training(
        asking, out / "cache", options, command.format(id=",".join(claim.id for claim in claims))
    )
    missing = {claim.id: run_count(claim) for claim in claims if trains(claim)} | training.at_most()
    print(plan_text(claims, missing), flush=True)
    if options.plan:
        training.show_plan()
        return 0

    def say(line: str) -> None:
        print(line, flush=True)

    def judged(claim: Claim, evidence: Evidence | None = None) -> dict[str, Any] | str:
        return outcome(claim, lambda own: _verify(out, tuned, command, keep_in, own, evidence))

    def conclude(claim: Claim, verdict: dict[str, Any] | str) -> None:
        if isinstance(verdict, str):
            training.failed[claim.id] = verdict
        elif claim.evidence == "none":
            say(f"\n{claim.id}  CANNOT BE TESTED: {claim.sentence}\n    {claim.reason}")
        else:
            words[verdict["verdict"]] = words.get(verdict["verdict"], 0) + 1
            say(f"\n{paragraph(verdict, min(WIDTH, shutil.get_terminal_size((WIDTH, 50)).columns))}")
            if verdict["untuned"]:
                say(f"    {beside_tuned(out / claim.id)}")
            say(f"    {folder_of(claim, out, tuned) / VERDICT}")

    def say_means(own: Asking) -> None:
        if means := write_claim_means(own, folder_of(by_id[own.claim.id], out, tuned)):
            say(f"    tensorboard --logdir {shlex.quote(str(means))}  (one run an arm, with bands)")

    # The claims as given. Without tuning, other claims train in their place.
    by_id = {claim.id: claim for claim in claims}
    plain = [claim for claim in claims if not trains(claim)]
    workers = cores() if options.workers is None else options.workers
    import_data(plain)
    for claim, verdict in zip(plain, fork_map(judged, plain, workers, measures_time), strict=True):
        conclude(claim, verdict)
    for own in training.run():
        if own.evidence is not None:
            conclude(by_id[own.claim.id], judged(by_id[own.claim.id], own.evidence))
            say_means(own)
    if training.status > 128:
        sys.exit(training.status)
    counts = ", ".join(f"{count} {word}" for word, count in words.items())
    print(f"\n{counts or 'nothing was tested'}; {time.perf_counter() - start:.0f} s")
    for name, line in training.failed.items():
        print(f"Error: {name}: {line}", file=sys.stderr)
    return 1 if training.failed else 0


def measures_time(claim: Claim) -> bool:
    """Whether a law measures how long something takes."""
    return (claim.function or "").startswith("costs.")


def trains(claim: Claim) -> bool:
    """Whether its runs are its own; claims over settings read those of the bank."""
    return claim.evidence == "training" and not claim.settings


def _asking(claim: Claim, out: Path, tuned: bool, command: str) -> Asking:
    if claim.tune and not tuned:  # another protocol
        claim = dataclasses.replace(claim, tune=None)
    return asking(claim, out, command.format(id=claim.id))


def _verify(
    out: Path, tuned: bool, command: str, keep_in: Path | None, claim: Claim, evidence: Evidence | None
) -> dict[str, Any]:
    command = command.format(id=claim.id)
    if claim.evidence == "none":
        verdict = untestable(claim, command)
        write_verdict(out / claim.id, verdict)
        return verdict
    return verify(claim, out, tuned=tuned, command=command, keep_in=keep_in, evidence=evidence)


def verify(
    claim: Claim,
    out: Path,
    *,
    tuned: bool,
    command: str,
    keep_in: Path | None = None,
    evidence: Evidence | None = None,
) -> dict[str, Any]:
    """Gather a claim's evidence, judge it, and write `verdict.json`, `evidence.csv`, `figure.png`, `section.md`. Write
    the evidence to commit into `keep_in`, unless the ledger of the bank has it.

    The verdict without tuning has its own folder. It never replaces the tuned one.

    Args:
        evidence: table and verdict of a claim that trains.
    """
    start = time.perf_counter()
    folder = folder_of(claim, out, tuned)
    untuned = folder.name == UNTUNED
    if untuned:  # a protocol of its own, so that its verdict is not taken for the claim's
        claim, command = dataclasses.replace(claim, tune=None), f"{command} tune=none"
    if claim.settings:
        table, verdict = over_settings(claim)
    elif claim.evidence == "training":
        table, verdict = evidence or train_one(asking(claim, out, command), out, command)
    else:
        table = search(claim) if claim.search else functions.gather(claim, claim.looks[-1])
        verdict = judge(table, claim)
    seconds = time.perf_counter() - start + verdict.get("seconds", 0.0)  # those of training stand there
    verdict |= {"untuned": untuned, "seconds": round(seconds, 2), "command": command}
    write_verdict(folder, verdict)
    table.to_csv(folder / "evidence.csv", index=False)
    draw(table, verdict, folder / "figure.png")
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
