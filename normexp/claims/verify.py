"""From selected claims to verdicts on disk and a paragraph each on the screen. What trains is imported where a claim
trains, since it takes more time than a law."""

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.claims.conclude import of_networks, of_runs
from normexp.claims.evidence.registry import protocol_of
from normexp.claims.judge.plain_words import BEGUN, WIDTH, paragraph
from normexp.claims.judge.verdict import judge
from normexp.claims.pages.figure import draw
from normexp.claims.spec.claim import Claim
from normexp.config.errors import status_of, why
from normexp.format import duration, pluralize, tell
from normexp.runs.files import write_json
from normexp.sweeps.options import Options

if TYPE_CHECKING:
    from normexp.claims.train import Training

VERDICT = "verdict.json"


def verified(
    claim: Claim, out: Path, command: str, registries: Sequence[Path] | None = None,
    training: "Training | None" = None,
) -> dict[str, Any]:  # fmt: skip
    """The verdict of a claim, by its runs if it trains, written to its folder below `out` with its evidence and figure.
    `command` is what was typed. Rows are looked for in `registries`, by default the user's own and that of the
    evidence."""
    start, folder = time.perf_counter(), out / claim.id
    if training:
        table, verdict = of_runs(training.claim, training.grid, training.table, registries)
    else:
        from normexp.claims.evidence.initial import gather, initial_table  # loads torch
        from normexp.claims.evidence.search import search

        if claim.settings:
            table, verdict = of_networks(claim, initial_table(claim), registries)
        else:
            table = search(claim) if claim.search else gather(claim)
            verdict = judge(table, claim)
    seconds = round(time.perf_counter() - start, 2)
    verdict |= {"protocol": protocol_of(claim), "seconds": seconds, "command": command}
    folder.mkdir(parents=True, exist_ok=True)
    # JSON has no infinity, so numbers that are not finite become text.
    plain = json.loads(json.dumps(verdict), parse_constant=lambda word: str(float(word)))
    write_json(folder / VERDICT, plain)
    table.to_csv(folder / "evidence.csv", index=False)
    if verdict["verdict"] != BEGUN:  # nothing is shown of some settings, either
        draw(table, verdict, folder / "figure.png", next(iter(claim.factor), ""))
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
    start, words, failed = time.perf_counter(), Counter[str](), dict[str, tuple[str, int]]()
    options, rounds = options or Options(), None
    plain = [claim for claim in claims if claim.evidence != "training"]
    seconds = sum(claim.seconds * claim.values for claim in plain)  # as the yaml says
    ids = [claim.id for claim in claims]
    named = ", ".join(ids) if len(ids) <= 8 else pluralize(len(ids), "claim")
    nothing = "; nothing to train" if len(plain) == len(claims) else ""
    computed = f", about {duration(seconds)}" + " without training" * (not nothing) if seconds else ""
    tell(f"plan: {named}{nothing}{computed}")
    if trained := [claim for claim in claims if claim.evidence == "training"]:
        from normexp.claims.train import Rounds

        rounds = Rounds(trained, out, command, evidence, registries)
        failed = rounds.failed
        rounds.show_plan(options)

    def say(claim: Claim, training: "Training | None" = None) -> None:
        try:
            verdict = verified(claim, out, command, registries, training)
        except Exception as error:
            failed[claim.id] = why(error), status_of(error)
            return
        words[verdict["verdict"]] += 1
        width = min(WIDTH, shutil.get_terminal_size((WIDTH, 50)).columns)
        print(f"\n{paragraph(verdict, width)}")
        if len(verdict.get("numerics", ())) > 1:
            differences = "whose differences docs/data/numerics_2.json has"
            tell(f"    its runs were computed by numerics 1 and 2, {differences}")
        if devices := verdict.get("devices"):
            tell(
                f"    it compares runs of {' and '.join(devices)}; evidence=none and another out= train all here"
            )
        tell(f"    {out / claim.id / VERDICT}")

    if not options.plan:
        for claim in plain:
            say(claim)
        if rounds:
            rounds.run(options, say)
        counts = ", ".join(f"{count} {word}" for word, count in words.items())
        tell(f"\n{counts or 'nothing was tested'}; {time.perf_counter() - start:.0f} s")
    for name, (reason, _) in failed.items():
        tell(f"Error: {name}: {reason}", file=sys.stderr)
    return max((status for _, status in failed.values()), default=0)
