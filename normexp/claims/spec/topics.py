"""What each claim is about, in the order in which people ask; and a search over all claims."""

import re
from collections.abc import Iterable

from normexp.claims.spec.claim import Claim

# The first topic whose words stand in the sentence is the claim's. They match without regard to case.
TOPICS = {
    "Batch size": r"batch size|batch of|batch falls|larger (the )?batch|micro-batch|at a time|ghost|identically dis",
    "In training and in use": r"running|momentum|kept part|eval mode|test time|inference|whole training|test batch",
    "Learning rate, warm-up and decay": r"learning[- ]rate|warm-up|rate of 0|best rate|decay",
    "Depth, vanishing and exploding gradients": r"vanish|explo|deeper|depth|more layers|parallel|too large or|"
    r"apart over|saturat|bounded|gram matrix|gradients? .*(a layer|last feed)",
    "Internal covariate shift and smoothness": r"covariate|smooth|drift|varies less|predicts itself|distribution of",
    "Transformers and language models": r"pre-ln|post-ln|transformer|language model|branch|block k|text|QK|DyT|Derf|"
    r"the sum|stream|token",
    "Invariance": r"invarian|insensitive|unaffected|\(a W\)|re-scaling|re-centering|proportion to the length|jacobian",
    "Variance, eps and rounding": r"eps\b|varia|deviation|biased|\bstd|half precision|float|rounding|divides by",
    "Gain and shift": r"\bgain|shift|gamma|bias\b",
    "Which norm is more accurate": r"accura|loss|errors|diverge",
}
OTHER = "Definitions and examples"


def topic(claim: Claim) -> str:
    """The topic of a claim."""
    text = claim.sentence
    return next((name for name, words in TOPICS.items() if re.search(words, text, re.I)), OTHER)


def matching(claims: Iterable[Claim], words: str) -> list[Claim]:
    """The claims in whose id, name, sentence, source or topic every one of the words stands."""
    asked = words.lower().split()

    def text(claim: Claim) -> str:
        return " ".join((claim.id, claim.name, claim.sentence, claim.source, topic(claim))).lower()

    return [claim for claim in claims if all(word in text(claim) for word in asked)]
