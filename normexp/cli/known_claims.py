"""The claims that a command may name: those of the project, and those of the user's own folder."""

from pathlib import Path

from normexp.claims.spec.claim import Claim
from normexp.claims.spec.claim_files import load_each
from normexp.config.folder import own_folder


def known_claims(project: Path, budget: str) -> tuple[dict[str, Claim], dict[str, str]]:
    """The claims of the project and of the user's folder by id, and the mistakes of unreadable files by id.
    `project` holds the claims of the project."""
    claims, broken = load_each(project, budget)
    if folder_of_user := own_folder():
        own, mistakes = load_each(folder_of_user / "claim", budget)
        if taken := own.keys() & claims.keys():
            name = min(taken)
            raise ValueError(
                f"{folder_of_user / 'claim' / name}.yaml: {name} is a claim of normexp; rename yours"
            )
        claims |= own
        broken |= mistakes
    return claims, broken
