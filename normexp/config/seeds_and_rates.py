"""The runs that a configuration with `replicas` stands for."""

import math
from typing import Any

ALONE = {"seeds": 1, "lr": None}  # one run
MOST = 1024
FORMS = "replicas=16, replicas.seeds=[0,3,5], replicas.lr=[0.01,0.1]"


def seeds_and_rates(config: dict[str, Any]) -> list[tuple[int, float | None]]:
    """(seed, learning rate) of each replica; None for the configuration's own rate.

    `replicas` is a number of seeds that start at `seed`, or {"seeds": that number or a list, "lr": a list or None}.
    Every seed is combined with every rate. Raises ValueError with one line for anything else.
    """
    asked = config["replicas"]
    asked = {"seeds": asked} if isinstance(asked, int) else asked
    unknown = set(asked) - {"seeds", "lr"}
    if unknown:
        raise ValueError(f"replicas.{min(unknown)}: no such key; write {FORMS}")
    seeds, rates = asked.get("seeds", 1), asked.get("lr")
    given = [v for v in (seeds, rates) if isinstance(v, int | list) and not isinstance(v, bool)]
    count = math.prod(len(v) if isinstance(v, list) else v for v in given)
    if count > MOST:
        raise ValueError(
            f"replicas={count}: as many models in memory at once, and as many folders; at most {MOST}, or a sweep"
        )
    if _is(seeds, int) and seeds >= 1:
        seeds = [config["seed"] + index for index in range(seeds)]
    elif not (isinstance(seeds, list) and seeds and all(_is(s, int) and s >= 0 for s in seeds)):
        raise ValueError(
            f"replicas.seeds={seeds}: must be a number of at least 1 or a list of seeds; write {FORMS}"
        )
    if rates is None:
        rates = [None]
    elif not (isinstance(rates, list) and rates and all(_is(r, int, float) and r > 0 for r in rates)):
        raise ValueError(f"replicas.lr={rates}: must be a list of positive learning rates; write {FORMS}")
    for name, values in (("seeds", seeds), ("lr", rates)):
        if len(set(values)) < len(values):
            raise ValueError(f"replicas.{name}={values}: names one twice; each replica is a run of its own")
    return [(seed, None if rate is None else float(rate)) for rate in rates for seed in seeds]


def _is(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
