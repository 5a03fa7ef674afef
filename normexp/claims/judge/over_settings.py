"""The verdict of a claim over settings: its counts, the word of each, and whether the sentence has one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from normexp.claims.judge.estimate import ALPHA
from normexp.claims.judge.head import few_of, head, lost_runs
from normexp.claims.judge.outcomes import Setting
from normexp.claims.judge.settings_count import count, with_word
from normexp.claims.judge.verdict import Check, Registered, RunsBeforeRegistration, Verdict, Word
from normexp.claims.spec.claim import Claim

if TYPE_CHECKING:
    from normexp.claims.evidence.registry import Row


def judge_settings(
    claim: Claim,
    settings: Sequence[Setting],
    *,
    row: "Row | None" = None,
    unregistered_because: str = "",
    before_registration: RunsBeforeRegistration | None = None,
    repeated: int = 0,
    manipulation: Sequence[Setting] = (),
) -> Verdict:
    """The verdict of a claim over settings. Each comparison of a sentence over drawn settings has a word and a p of its
    own, and the sentence of several has none: two sentences that hold in most settings need not hold together in most.
    Nothing is counted before as many settings are finished as the claim asks for: one near its margin is finished later
    than others, so a count of the first ones would be biased.

    Args:
        settings: the runs of every arm in each of them.
        row: the claim's registration with the alpha of its verdict.
        repeated: draws that were the same network as an earlier one, which `settings` leaves out.
        manipulation: the settings with the values of the manipulation check.
    """
    confidence, needed = 1 - (row.alpha if row else ALPHA), claim.first - repeated
    check = _check(claim, manipulation, confidence)
    begun = claim.drawn and len(settings) < needed
    counts = [count(settings, comparison, confidence) for comparison in claim.comparisons]
    if claim.drawn and not begun:
        counts = [with_word(result, caused=not check or check.held) for result in counts]
    word, p = (counts[0].word, counts[0].p) if len(counts) == 1 else (Word.COUNTED, None)
    if begun:
        word = Word.BEGUN
    elif claim.withdrawn:
        word, p = Word.WITHDRAWN, None
    return Verdict(
        **head(claim, settings),
        word=word,
        confidence=confidence,
        failures=lost_runs(setting.outcomes for setting in settings),
        counts=tuple(counts),
        needed=needed,
        p=p,
        repeated=repeated,
        few=few_of(claim),
        manipulation=check,
        registered=Registered(row=row.number, date=row.date, alpha=row.alpha) if row else None,
        unregistered_because=unregistered_because,
        before_registration=before_registration,
    )


def _check(claim: Claim, settings: Sequence[Setting], confidence: float) -> Check | None:
    """The manipulation check: a causal sentence needs it to hold, in most drawn settings or in all hand-picked ones."""
    cause = claim.manipulation
    if not (cause and settings):
        return None
    result = count(settings, cause.comparison, confidence)
    held = result.share_interval[0] > 0.5 if claim.drawn else result.holds == result.n
    return Check(**vars(result), measure=cause.measure, held=held)
