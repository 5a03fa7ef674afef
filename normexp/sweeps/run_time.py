"""How long a run will take, from one timed step."""

import time

from normexp.config.run_parts import Parts

AROUND_A_STEP = 1.4  # training loop, light monitors and validation, as a factor on forward and backward
AROUND_A_RUN = 1.0  # seconds to build, evaluate and save


def seconds_per_step(parts: Parts) -> float:
    """One forward and backward pass of a training batch on the CPU; the first pass warms up."""
    batch = parts.data.probe_batch(parts.config["batch_size"])
    for _ in range(2):
        started = time.perf_counter()
        parts.module.losses_of(batch)[0].backward()
        seconds = time.perf_counter() - started
    # where validation has fewer samples than a batch, the rest is taken in proportion
    return seconds * parts.config["batch_size"] / len(batch[0])


def estimate(steps: int, step_seconds: float) -> float:
    """Seconds that a run of so many steps takes, start and end included."""
    return AROUND_A_RUN + steps * step_seconds * AROUND_A_STEP
