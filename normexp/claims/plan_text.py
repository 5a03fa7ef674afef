"""The plan of claims in words: how many runs are missing, in which settings, and how long they take."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from normexp.claims.evidence.disk_runs import LADDER
from normexp.claims.evidence.plan import Known
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.population import RATES
from normexp.claims.spec.select import whole_id
from normexp.config.run_spec import RunSpec
from normexp.format import duration, pluralize
from normexp.sweeps.screen import core_minutes


def plan_text(claims: list[Claim], missing: dict[str, int]) -> str:
    """Lines for the screen. `missing` has the most runs that each training claim still has to train. Times of the other
    claims come from the yaml."""
    seconds = sum(one.seconds * one.values for one in claims if one.evidence not in ("none", "training"))
    wholes = {whole_id(claim.id) for claim in claims}
    parts = f"{len(claims)} parts of {wholes.pop().upper()}" if len(wholes) == 1 < len(claims) else ""
    computed = f", about {duration(seconds)} without training" if seconds else ""
    lines = [f"plan: {parts or pluralize(len(claims), 'claim')}{computed}"]
    for claim in claims:
        if claim.id in missing:
            lines.append(f"  {claim.id}: at most {missing[claim.id]} of {run_count(claim)} runs to train")
    return "\n".join(lines)


def by_the_bank(claim: Claim, reason: str) -> list[str]:
    """Lines on a claim whose data or pilots are not here: the runs of each setting and in all, by the files of the
    claim and of its bank. Pilots will give each arm three rates."""
    each = len(claim.arms) * len(claim.levels) * claim.seeds
    found = RATES if claim.drawn else len(LADDER)
    counts = [
        each * (len(cell.rates) or found if claim.rate == "own" else 1) for cell in claim.cells.values()
    ]
    times = [
        runs * (cell.seconds or claim.seconds)
        for cell, runs in zip(claim.cells.values(), counts, strict=True)
    ]
    lines = [
        f"  {claim.id}: at most {sum(counts)} runs, {sum(times) / 3600:.1f} core-hours; nothing is checked or timed"
    ]
    lines.append(f"    {reason}")
    for cell, runs, seconds in zip(claim.cells.values(), counts, times, strict=True):
        lines.append(
            f"    {claim.id} {cell.name} ({cell.what}): {pluralize(runs, 'run')}, {duration(seconds)} by its file"
        )
    return lines


def run_count(claim: Claim) -> int:
    """Most training runs: for its seeds, and for those that tune the learning rate; over settings at
    the rates of each cell, before any grid expands."""
    each = len(claim.arms) * len(claim.levels)
    if claim.settings:
        rates = {name: len(cell.rates) if claim.rate == "own" else 1 for name, cell in claim.cells.items()}
        return each * claim.seeds * sum(rates.values())
    return each * (claim.seeds + (len(claim.tune["lr"]) * claim.tune["seeds"] if claim.tune else 0))


def by_setting(found: Sequence[tuple[Known, list[RunSpec]]], times: Sequence[float | None]) -> list[str]:
    """A line for each setting that has runs to train: their number, and their time on one core."""
    lines, each = [], iter(times)
    for known, specs in found:
        count: Counter[str] = Counter()
        seconds: dict[str, float] = defaultdict(float)
        for spec, own in zip(specs, each, strict=False):
            if known.claim.settings and known.disk:
                words = known.disk.shown[spec.folder].split()
                setting = next(word for word in words if word.startswith("setting=")).partition("=")[2]
                count[setting] += 1
                seconds[setting] += math.nan if own is None else own
        for setting, runs in count.items():
            what = known.claim.cells[setting].what
            cost = f", {core_minutes(seconds[setting])}" if seconds[setting] == seconds[setting] else ""
            lines.append(f"    {known.claim.id} {setting} ({what}): {pluralize(runs, 'run')}{cost}")
    return lines
