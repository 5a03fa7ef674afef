"""What a Ray worker runs."""

from normexp.sweeps.places.on_node import Share, run_share


def run(share: Share) -> dict[str, int | None]:
    """The exit code of each job by its key. Ray cancels by a KeyboardInterrupt, which ends the jobs cleanly."""
    return run_share(share, lambda: False)
