"""Settings that cannot show an effect: too easy (ceiling) or not learned (floor). They are shown but do not vote.

The rules use only the mean over all compared arms, which stays the same if arms change places. So no rule can remove
the settings that favor one side.
"""

import math
from collections.abc import Iterable

import numpy as np

from normexp.claims.judge.outcomes import Outcomes, Setting

FEWEST_WRONG = 5.0  # wrong answers per run; with fewer, one image is more than a fifth of the errors
FLOOR = 0.9  # of the value of guessing


def saturation(setting: Setting, compared: Iterable[Outcomes]) -> str:
    """`ceiling`, `floor` or nothing.

    Ceiling: wrong answers are counted, and there are fewer than 5 per run on average over arms. Floor: on average over
    arms, the error, loss or time is at least nine tenths of that of a run that learned nothing. Failed runs do not
    count, because failure is a separate outcome.
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
