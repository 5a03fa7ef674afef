"""The task of a Ray worker."""

from normexp.sweeps.places.on_node import Share, run_share


def run(share: Share) -> dict[str, int | None]:
    """Run the jobs. Returns the exit code of each by its key. Ray cancels with a KeyboardInterrupt, which ends them
    cleanly."""
    return run_share(share, lambda: False)
