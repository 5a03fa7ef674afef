"""The words of all claims over drawn settings as one family: which stay if, with 95%, none of them may be false."""

from collections.abc import Mapping
from dataclasses import dataclass

from normexp.claims.judge.estimate import ALPHA, holm
from normexp.claims.judge.verdict import REFUTED, SUPPORTED, WITHDRAWN, Count, Verdict

DEFINITIONS = ("arithmetic", "self-check")


@dataclass(frozen=True)
class Family:
    """Each comparison that has a word over drawn settings, of claims that are no arithmetic."""

    tested: Mapping[tuple[str, int], Count]
    """(id of a claim, part of it from 1) -> its count."""
    stays: Mapping[tuple[str, int], bool]
    """Whether its word stays under Holm."""

    @classmethod
    def of(cls, verdicts: Mapping[str, Verdict]) -> "Family":
        """The family of these verdicts."""
        tested = {
            (name, part): result
            for name, verdict in verdicts.items()
            if verdict.kind not in DEFINITIONS
            for part, result in enumerate(verdict.counts, 1)
            if result.p is not None
        }
        adjusted = holm([result.p for result in tested.values()]).tolist()
        return cls(tested, {key: p <= ALPHA for key, p in zip(tested, adjusted, strict=True)})

    def in_words(self, verdict: Verdict) -> str:
        """Which of a claim's comparisons that are supported or refuted stay; empty if none is."""
        told = {
            part: "stays" if stays else "falls"
            for (name, part), stays in self.stays.items()
            if name == verdict.id and verdict.counts[part - 1].word in (SUPPORTED, REFUTED)
        }
        if not told or verdict.word == WITHDRAWN:
            return ""
        several = len(verdict.counts) > 1
        parts = [f"part {part} {word}" if several else word for part, word in told.items()]
        return f"{', '.join(parts)} under Holm over {len(self.stays)} comparisons"
