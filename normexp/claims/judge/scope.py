"""The scope of a word, which always follows the word: "in 7 of 8 settings (digits, MNIST; MLP, CNN)"."""

from collections.abc import Sequence

import numpy as np

from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.settings_word import INCONCLUSIVE, SUPPORTED, VARIES, Decision

ONE_SETTING = "one setting, unregistered"
BOTH_TRAINED = "given that both trained"


def scope(settings: Sequence[Setting], decision: Decision, *, left_out: bool) -> str:
    """The scope of a word over the settings that vote. `left_out`: some runs failed and are left out."""
    word, count = str(decision.word), len(settings)
    if word == INCONCLUSIVE:
        where = f"in {count} settings"
    elif word == VARIES:
        cells = decision.cells
        where = f"supported in {(cells == 1).sum()} and refuted in {(cells == -1).sum()} of {count}"
    else:
        pointing = int((decision.points == (1 if word == SUPPORTED else -1)).sum())
        where = f"in {pointing} of {count} settings"
    found = kinds(settings)
    return where + (f" ({found})" if found else "") + (f", {BOTH_TRAINED}" if left_out else "")


def kinds(settings: Sequence[Setting]) -> str:
    """The values of each label over the settings, each once and in their order."""
    labels = dict.fromkeys(label for setting in settings for label in setting.labels)
    values = [dict.fromkeys(s.labels[label] for s in settings if label in s.labels) for label in labels]
    return "; ".join(", ".join(own) for own in values)


def why_inconclusive(
    *,
    voting: int,
    fewest: int,
    pairs: int,
    fewest_pairs: int,
    decided: bool,
    points: np.ndarray,
    against: int,
    noise: float,
) -> str:
    """The first reason why there is no word. `noise` is the share of the spread over settings that seeds explain."""
    if voting < fewest:
        return f"{voting} settings vote, and {fewest} are needed"
    if pairs < fewest_pairs:
        more = -(-(fewest_pairs - pairs) // voting)
        seeds = f"{more} more seed{'s' * (more > 1)} in each setting"
        return f"{pairs} pairs of runs, and {fewest_pairs} are needed; {seeds}"
    if not decided and noise < 0.5:
        return "settings differ by more than seeds explain, so that more settings would help and more seeds would not"
    if not decided:
        return "more seeds would help: settings differ by no more than seeds explain"
    if against:
        return f"the mean decides, but {against} of {voting} settings decide otherwise"
    most = max((points == 1).sum(), (points == -1).sum())
    return f"the mean decides, but only {most} of {voting} settings point that way"
