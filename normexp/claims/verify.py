"""From selected claims to verdicts on disk and a paragraph each on the screen. What trains is imported where a claim
trains, since it takes more time than a law."""

import itertools
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from normexp.claims.conclude import conclude
from normexp.claims.gather import Evidence, Failed, kept, noted, to_train
from normexp.claims.judge.verdict import Verdict, Word
from normexp.claims.pages.figure import draw
from normexp.claims.record import table_of_settings, to_json
from normexp.claims.spec.claim import Claim
from normexp.claims.words import WIDTH, paragraph
from normexp.format import duration, pluralize, tell
from normexp.runs.files import write_json
from normexp.sweeps.options import Options

VERDICT = "verdict.json"


def verified(
    claim: Claim,
    out: Path,
    command: str,
    registries: Sequence[Path] | None = None,
    evidence: Evidence | None = None,
) -> Verdict:
    """The verdict of a claim, written to its folder below `out` with the table that was judged and a figure. Of a claim
    that trains nothing the evidence is computed now. `command` is what was typed."""
    start, folder = time.perf_counter(), out / claim.id
    table, verdict = conclude(evidence or computed(claim), registries)
    verdict = replace(verdict, seconds=round(time.perf_counter() - start, 2), command=command)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / VERDICT, to_json(verdict))
    table.to_csv(folder / "evidence.csv", index=False)
    if verdict.counts and verdict.word != Word.BEGUN:
        table_of_settings(verdict).to_csv(folder / "settings.csv", index=False)
    if verdict.word != Word.BEGUN:  # nothing is shown of some settings, either
        draw(table, verdict, folder / "figure.png")
    return verdict


def verify_all(
    claims: list[Claim],
    out: Path,
    *,
    command: str,
    options: Options | None = None,
    evidence: Path | None = None,
    registries: Sequence[Path] | None = None,
) -> int:
    """Print the plan, train what is missing, and print a paragraph for each verdict. A claim that fails to run is named
    at the end and makes the exit status 1, or 2 where its input is bad; any verdict makes it 0. `evidence` is the
    folder of kept runs; None to judge from this disk alone. The other arguments are those of `verified`."""
    start, counts, failed = time.perf_counter(), Counter[str](), Failed()
    options, rounds = options or Options(), None
    plain = [claim for claim in claims if claim.evidence != "training"]
    tell(plan_of(claims, plain))
    whole = {claim.id: found for claim in claims if (found := _whole(claim, evidence))}
    for found in whole.values():
        tell(f"  {to_train(found)}")
    if lacking := [c for c in claims if c.evidence == "training" and c.id not in whole]:
        from normexp.claims.train import Rounds

        rounds = Rounds(lacking, out, command, evidence, registries)
        failed = rounds.failed
        rounds.show_plan(options)
    if options.plan:
        for claim in plain:
            with noted(failed, claim.id):
                from normexp.claims.evidence.initial import check  # loads torch

                check(claim)
    else:
        ready = [(claim, None) for claim in plain] + [(found.claim, found) for found in whole.values()]
        trained = ((found.claim, found) for found in rounds.run(options)) if rounds else ()
        for claim, found in itertools.chain(ready, trained):
            with noted(failed, claim.id):
                verdict = verified(claim, out, command, registries, found)
                counts[verdict.word] += 1
                show(verdict, out)
        summary = ", ".join(f"{count} {word}" for word, count in counts.items())
        tell(f"\n{summary or 'nothing was tested'}; {time.perf_counter() - start:.0f} s")
    for name, (reason, _) in failed.items():
        tell(f"Error: {name}: {reason}", file=sys.stderr)
    return max((status for _, status in failed.values()), default=0)


def plan_of(claims: Sequence[Claim], plain: Sequence[Claim]) -> str:
    """What is verified, and how long the `plain` claims take, which train nothing, as their files say."""
    ids = [claim.id for claim in claims]
    named = ", ".join(ids) if len(ids) <= 8 else pluralize(len(ids), "claim")
    nothing = "; nothing to train" if len(plain) == len(claims) else ""
    seconds = sum(claim.seconds * claim.values for claim in plain)
    computing = f", about {duration(seconds)}{'' if nothing else ' without training'}" if seconds else ""
    return f"plan: {named}{nothing}{computing}"


def show(verdict: Verdict, out: Path) -> None:
    """Print the paragraph of a verdict, what its runs were computed by, and where it is."""
    width = min(WIDTH, shutil.get_terminal_size((WIDTH, 50)).columns)
    print(f"\n{paragraph(verdict, width)}")
    if len(verdict.numerics) > 1:
        differences = "whose differences docs/data/numerics_2.json has"
        tell(f"    its runs were computed by numerics 1 and 2, {differences}")
    if devices := " and ".join(verdict.devices):
        tell(f"    it compares runs of {devices}; evidence=none and another out= train all here")
    tell(f"    {out / verdict.claim.id / VERDICT}")


def computed(claim: Claim) -> Evidence:
    """The values of a claim that trains nothing, made anew."""
    from normexp.claims.evidence.initial import gather, initial_table  # loads torch
    from normexp.claims.evidence.search import search

    make = initial_table if claim.cells else search if claim.search else gather
    return Evidence(claim, make(claim))


def _whole(claim: Claim, folder: Path | None) -> Evidence | None:
    """The kept evidence of a training claim over settings, if nothing of it is missing; then nothing of what trains is
    loaded. What a cell leaves out is found in its data, so such a claim is looked at later."""
    over_settings = claim.evidence == "training" and claim.cells
    if folder is None or not over_settings or not all(cell.is_complete for cell in claim.cells.values()):
        return None
    found = kept(claim, folder)
    return found if found and found.is_whole else None
