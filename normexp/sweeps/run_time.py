"""Estimate the time of a run from one timed step."""

import time

from normexp.config.run_parts import Parts

AROUND_A_STEP = 1.4  # factor on forward and backward, for the training loop, light monitors and validation
AROUND_A_RUN = 1.0  # seconds to build, evaluate and save


def seconds_per_step(parts: Parts) -> float:
    """One forward and backward pass of a training batch on the CPU; the first pass warms up."""
    batch = parts.data.probe_batch(parts.config["batch_size"])
    for _ in range(2):
        started = time.perf_counter()
        parts.module.losses_of(batch)[0].backward()
        seconds = time.perf_counter() - started
    # If validation has fewer samples than a batch, scale the time in proportion.
    return seconds * parts.config["batch_size"] / len(batch[0])


def estimate(steps: int, step_seconds: float) -> float:
    """Seconds of a run of so many steps, including its start and end."""
    return AROUND_A_RUN + steps * step_seconds * AROUND_A_STEP
