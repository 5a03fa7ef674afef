"""Several training claims at a time, each in a process of its own."""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any

from normexp.claims.spec.claim import Claim
from normexp.cli import full_errors, one_line
from normexp.cores import cores

Outcome = tuple[Claim, dict[str, Any] | str]  # a verdict, or in one line why there is none


def groups(claims: list[Claim]) -> list[list[Claim]]:
    """Claims that may share runs stay together and in order: two processes would train them twice or meet in one
    folder. Those are the ones with the same things fixed, or with one number in their ids, P03 and P03b."""
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
    """What becomes of each claim, as they end. `verify` must be picklable; an interruption of a run comes out as its
    SystemExit."""
    shares = groups(claims)
    threads = max(1, cores() // min(workers, len(shares)))
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(
        threads
    )  # processes that spin on the same cores take twenty times as long
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
    """One claim that cannot run must not take the others along. The error becomes text here, because Hydra's errors
    do not survive the way from one process to another."""
    try:
        return verify(claim)
    except Exception as error:
        if full_errors():
            traceback.print_exc()
        return one_line(error)
