"""Verify several training claims at a time, each in its own process."""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any

from normexp.claims.spec.claim import Claim
from normexp.cli import full_errors, one_line
from normexp.cores import cores

Outcome = tuple[Claim, dict[str, Any] | str]  # a verdict, or one line that says why there is none


def groups(claims: list[Claim]) -> list[list[Claim]]:
    """Group claims that may share runs, in order: two processes would train the runs twice or collide in one folder.
    Claims share runs if they fix the same overrides, or if their ids have the same number, such as P03 and P03b."""
    found: list[list[Claim]] = []
    for claim in claims:
        near = [
            g for g in found if any(set(c.fixed) == set(claim.fixed) or c.id[:3] == claim.id[:3] for c in g)
        ]
        found = [g for g in found if g not in near] + [[*(c for g in near for c in g), claim]]
    return found


def outcomes(
    claims: list[Claim], workers: int, verify: Callable[[Claim], dict[str, Any]]
) -> Iterator[Outcome]:
    """Yield the outcome of each claim when it ends. `verify` must be picklable. If a run is interrupted, its SystemExit
    is raised here."""
    shares = groups(claims)
    threads = max(1, cores() // min(workers, len(shares)))
    before = os.environ.get("OMP_NUM_THREADS")
    # Processes with too many threads for the cores take twenty times as long.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            asked: list[Future] = [pool.submit(one_after_the_other, share, verify) for share in shares]
            for future in as_completed(asked):
                yield from future.result()
    finally:
        os.environ.pop("OMP_NUM_THREADS")
        if before is not None:
            os.environ["OMP_NUM_THREADS"] = before


def one_after_the_other(claims: list[Claim], verify: Callable[[Claim], dict[str, Any]]) -> list[Outcome]:
    """The outcome of each claim, judged in this process."""
    return [(claim, outcome(claim, verify)) for claim in claims]


def outcome(claim: Claim, verify: Callable[[Claim], dict[str, Any]]) -> dict[str, Any] | str:
    """A verdict, or an error as text: a claim that cannot run must not stop the others. It becomes text here, because
    Hydra's errors cannot be sent from one process to another."""
    try:
        return verify(claim)
    except Exception as error:
        if full_errors():
            traceback.print_exc()
        return one_line(error)
