"""What a command will do and about how long it takes, said before it starts."""

from normexp.claims.claim import Claim


def plan_text(claims: list[Claim]) -> str:
    """Lines for the screen. Times are those of the yaml; runs in the cache take none."""
    testable = [claim for claim in claims if claim.evidence != "none"]
    lines = [
        f"plan: {len(claims)} claim{'s' * (len(claims) != 1)}, about {duration(sum(map(cost, testable)))}"
    ]
    for claim in testable:
        if claim.evidence == "training":
            runs = f"at most {run_count(claim)} runs ({claim.budget} budget)"
            lines.append(f"  {claim.id}: {runs}, about {duration(cost(claim))}, less what is in the cache")
    return "\n".join(lines)


def run_count(claim: Claim) -> int:
    """Training runs at most: the last look's seeds, and those that tune the learning rate."""
    tuning = len(claim.tune["lr"]) * claim.tune["seeds"] if claim.tune else 0
    return len(claim.arms) * len(claim.levels) * (claim.looks[-1] + tuning)


def cost(claim: Claim) -> float:
    """Estimated seconds."""
    return claim.seconds * (run_count(claim) if claim.evidence == "training" else claim.cells)


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
