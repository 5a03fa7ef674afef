"""What a command will do and about how long it takes, said before it starts."""

from normexp.claims.spec.claim import Claim
from normexp.duration import duration


def plan_text(claims: list[Claim], missing: dict[str, int]) -> str:
    """Lines for the screen. `missing` has the runs that each training claim still has to train, at most; times are
    those of the yaml."""
    times = {
        claim.id: claim.seconds * missing[claim.id] if claim.id in missing else cost(claim)
        for claim in claims
        if claim.evidence != "none"
    }
    lines = [f"plan: {len(claims)} claim{'s' * (len(claims) != 1)}, about {duration(sum(times.values()))}"]
    for claim in claims:
        if claim.id in missing:
            runs = f"at most {missing[claim.id]} of {run_count(claim)} runs to train ({claim.budget} budget)"
            lines.append(f"  {claim.id}: {runs}, about {duration(times[claim.id])}")
    return "\n".join(lines)


def run_count(claim: Claim) -> int:
    """Training runs at most: the last look's seeds, and those that tune the learning rate."""
    tuning = len(claim.tune["lr"]) * claim.tune["seeds"] if claim.tune else 0
    return len(claim.arms) * len(claim.levels) * (claim.looks[-1] + tuning)


def cost(claim: Claim) -> float:
    """Estimated seconds."""
    return claim.seconds * (run_count(claim) if claim.evidence == "training" else claim.cells)
