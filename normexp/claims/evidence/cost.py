"""The plan of a command, with estimated times, printed before it starts."""

from normexp.claims.spec.claim import Claim
from normexp.claims.spec.select import whole_id
from normexp.format import duration, pluralize


def plan_text(claims: list[Claim], missing: dict[str, int]) -> str:
    """Lines for the screen. `missing` has the most runs that each training claim still has to train. Times come from
    the yaml."""
    times = {
        claim.id: claim.seconds * missing[claim.id] if claim.id in missing else cost(claim)
        for claim in claims
        if claim.evidence != "none"
    }
    wholes = {whole_id(claim.id) for claim in claims}
    parts = f"{len(claims)} parts of {wholes.pop().upper()}" if len(wholes) == 1 < len(claims) else ""
    lines = [f"plan: {parts or pluralize(len(claims), 'claim')}, about {duration(sum(times.values()))}"]
    for claim in claims:
        if claim.id in missing:
            runs = f"at most {missing[claim.id]} of {run_count(claim)} runs to train ({claim.budget} budget)"
            lines.append(f"  {claim.id}: {runs}, about {duration(times[claim.id])}")
    return "\n".join(lines)


def run_count(claim: Claim) -> int:
    """Most training runs: for the seeds of the last look, and for those that tune the learning rate."""
    tuning = len(claim.tune["lr"]) * claim.tune["seeds"] if claim.tune else 0
    return len(claim.arms) * len(claim.levels) * (claim.looks[-1] + tuning)


def cost(claim: Claim) -> float:
    """Estimated seconds of a claim."""
    return claim.seconds * (run_count(claim) if claim.evidence == "training" else claim.cells)
