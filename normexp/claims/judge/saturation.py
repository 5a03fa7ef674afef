"""Settings in which a sentence cannot show: too easy (ceiling) or not learned (floor). They are shown and do not vote.

The rules ask the mean over all arms that are compared, which stays the same when arms change places: no rule can take
out the settings that speak for one side.
"""

import math
from collections.abc import Iterable

import numpy as np

from normexp.claims.judge.outcomes import Outcomes, Setting

FEWEST_WRONG = 5.0  # wrong answers a run; with fewer, one image more or less is a fifth of the errors
FLOOR = 0.9  # of what guessing gives


def saturation(setting: Setting, compared: Iterable[Outcomes]) -> str:
    """`ceiling`, `floor` or nothing.

    Ceiling: where wrong answers are counted, fewer than 5 a run on average over arms. Floor: on average over arms the
    error, the loss or the time is at least nine tenths of that of a run that learned nothing. Failed runs do not count,
    because failure is an outcome of its own.
    """
    trained = [outcomes.at(~outcomes.failed) for outcomes in compared]
    means = [float(outcomes.values.mean()) for outcomes in trained if len(outcomes.seeds)]
    if not means:
        return "floor"
    if setting.counts:
        examples = next(outcomes.known_examples.shape[1] for outcomes in trained if len(outcomes.seeds))
        if np.mean(means) * examples < FEWEST_WRONG:
            return "ceiling"
    guess = math.inf if setting.guess is None else setting.guess
    return "floor" if np.mean(means) >= FLOOR * guess else ""
