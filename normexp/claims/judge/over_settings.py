"""The verdict of a claim over settings: its counts, the word of each, and whether the sentence has one."""

from collections.abc import Sequence

from normexp.claims.judge.estimate import ALPHA
from normexp.claims.judge.outcomes import Setting, arm_means, lost_runs
from normexp.claims.judge.settings_count import count, with_word
from normexp.claims.judge.verdict import Check, Registered, Verdict, Word
from normexp.claims.spec.claim import Claim


def judge_settings(
    claim: Claim,
    settings: Sequence[Setting],
    *,
    registered: Registered | None = None,
    repeated: int = 0,
    manipulation: Sequence[Setting] = (),
) -> Verdict:
    """The verdict of a claim over settings. Each comparison of a sentence over drawn settings has a word and a p of its
    own, and the sentence of several has none: two sentences that hold in most settings need not hold together in most.
    Nothing is counted before as many settings are finished as the claim asks for: one near its margin is finished later
    than others, so a count of the first ones would be biased.

    Args:
        settings: the runs of every arm in each of them.
        registered: the claim's row in the registry, with the alpha of its verdict.
        repeated: draws that were the same network as an earlier one, which `settings` leaves out.
        manipulation: the settings with the values of the manipulation check.
    """
    confidence = 1 - (registered.alpha if registered else ALPHA)
    check = _check(claim, manipulation, confidence)
    begun = claim.drawn and len(settings) < claim.first - repeated
    counts = [count(settings, comparison, confidence) for comparison in claim.comparisons]
    if claim.drawn and not begun:
        counts = [with_word(result, caused=not check or check.held) for result in counts]
    word = counts[0].word if len(counts) == 1 else Word.COUNTED
    word = Word.BEGUN if begun else Word.WITHDRAWN if claim.withdrawn else word
    return Verdict(
        claim=claim,
        word=word,
        confidence=confidence,
        arms=arm_means(settings),
        failures=lost_runs(setting.outcomes for setting in settings),
        counts=tuple(counts),
        repeated=repeated,
        manipulation=check,
        registered=registered,
    )


def _check(claim: Claim, settings: Sequence[Setting], confidence: float) -> Check | None:
    """The manipulation check: a causal sentence needs it to hold, in most drawn settings or in all hand-picked ones."""
    cause = claim.manipulation
    if not (cause and settings):
        return None
    result = count(settings, cause.comparison, confidence)
    held = result.share_interval[0] > 0.5 if claim.drawn else result.holds == result.n
    return Check(**vars(result), measure=cause.measure, held=held)
