"""From selected claims to verdicts on disk and a paragraph each on the screen. What trains is imported where a claim
trains, since it takes more time than a law."""

import json
import multiprocessing
import shlex
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from normexp.claims.conclude import conclude, noticed
from normexp.claims.judge.plain_words import BEGUN, WIDTH, paragraph, section
from normexp.claims.judge.verdict import UNTUNED, VERDICT, judge, untestable, write_verdict
from normexp.claims.pages.figure import draw
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.select import whole_id
from normexp.config.errors import why
from normexp.format import duration, pluralize
from normexp.machine import cores
from normexp.sweeps.options import Options

if TYPE_CHECKING:
    from normexp.claims.evidence.plan import Known
    from normexp.claims.evidence.stored import StoredEvidence
    from normexp.claims.rounds import Rounds

Evidence = tuple[pd.DataFrame, dict[str, Any]]  # table and verdict


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of one command.

    Args:
        out: their folder.
        command: to reproduce a claim, with `{id}` in place of its own.
        tuned: whether every arm takes its own learning rate.
        registries: where rows are looked for; by default the user's own, then the ledger's.
        keep_in: a ledger in which the values of claims are kept.
    """

    out: Path
    command: str
    tuned: bool = True
    registries: Sequence[Path] | None = None
    keep_in: Path | None = None

    def folder(self, claim: Claim) -> Path:
        """The folder of a claim's verdict. The verdict without tuning lies in a folder below."""
        return self.out / claim.id / UNTUNED if claim.tune and not self.tuned else self.out / claim.id

    def verdict(self, claim: Claim, known: "Known | None" = None) -> dict[str, Any] | str:
        """The verdict of a claim, written to its folder, or one line that says why there is none. `known` has the runs
        of a training claim."""
        try:
            if claim.evidence == "none":
                verdict = untestable(claim, self.command.format(id=claim.id))
                write_verdict(self.out / claim.id, verdict)
                return verdict
            return self._write(claim, known)
        except Exception as error:
            return why(error)

    def _write(self, claim: Claim, known: "Known | None") -> dict[str, Any]:
        """Write `verdict.json`, `evidence.csv`, `figure.png`, `section.md`, and what is to be kept.

        The verdict without tuning has its own folder. It never replaces the tuned one.
        """
        start, command = time.perf_counter(), self.command.format(id=claim.id)
        folder = self.folder(claim)
        untuned = folder.name == UNTUNED
        if untuned and known:  # a protocol of its own, so that its verdict is not taken for the claim's
            claim, command = known.claim, f"{command} tune=none"
        table, verdict = self._judged(claim, known)
        verdict = noticed(verdict, claim, self.registries)
        seconds = time.perf_counter() - start
        verdict |= {"untuned": untuned, "seconds": round(seconds, 2), "command": command}
        write_verdict(folder, verdict)
        table.to_csv(folder / "evidence.csv", index=False)
        if verdict["verdict"] != BEGUN:  # nothing is shown of some settings, either
            draw(table, verdict, folder / "figure.png")
        (folder / "section.md").write_text(section(verdict))
        if self.keep_in and not untuned:
            from normexp.claims.evidence.keep import keep_claim, keep_verdict

            if known and claim.settings:  # the runs that a verdict was read from, or the values
                print(keep_claim(self.keep_in, known), flush=True)
            else:
                keep_verdict(self.keep_in, claim, table, verdict)
        return verdict

    def _judged(self, claim: Claim, known: "Known | None") -> Evidence:
        """Table and verdict: from trained runs, from a law, or from networks at their start."""
        if claim.settings:
            return conclude(known.claim if known else claim, known, registries=self.registries)
        if known:
            return in_one_setting(known)
        from normexp.claims.evidence.initial import gather  # loads torch
        from normexp.claims.evidence.search import search

        table = search(claim) if claim.search else gather(claim)
        return table, judge(table, claim)


def verify_all(
    claims: list[Claim],
    out: Path,
    *,
    options: Options | None = None,
    evidence: "StoredEvidence | None" = None,
    **given: Any,
) -> int:
    """Print the plan, train what is missing, and print a paragraph for each verdict. A claim that fails to run is named
    at the end and makes the exit status 1; any verdict makes it 0. `evidence` is the ledger; None to judge from this
    disk alone. The other arguments are those of `Verdicts`."""
    start, verdicts, words = time.perf_counter(), Verdicts(out, **given), Counter[str]()
    options = options or Options()
    rounds = None
    if training := [claim for claim in claims if claim.evidence == "training"]:
        from normexp.claims.rounds import Rounds

        rounds = Rounds(training, out, command=verdicts.command, tuned=verdicts.tuned, evidence=evidence,
                        registries=verdicts.registries)  # fmt: skip
    failed: dict[str, str] = rounds.failed if rounds else {}
    show_plan(claims, rounds)
    if options.plan:
        if rounds:
            rounds.show_runs(options)
        return exit_status(failed)

    def say(claim: Claim, verdict: dict[str, Any] | str) -> None:
        if isinstance(verdict, str):
            failed[claim.id] = verdict
        elif claim.evidence == "none":
            print(f"\n{claim.id}  CANNOT BE TESTED: {claim.sentence}\n    {claim.reason}", flush=True)
        else:
            words[verdict["verdict"]] += 1
            width = min(WIDTH, shutil.get_terminal_size((WIDTH, 50)).columns)
            print(f"\n{paragraph(verdict, width)}")
            if verdict["untuned"]:
                print(f"    {beside_tuned(out / claim.id)}")
            print(f"    {verdicts.folder(claim) / VERDICT}", flush=True)

    def finished(claim: Claim, known: "Known") -> None:
        from normexp.claims.evidence.curves import write_claim_means

        verdict = verdicts.verdict(claim, known)
        say(claim, verdict)
        compared = [] if isinstance(verdict, str) or claim.settings else known.compared()
        if means := write_claim_means(compared, verdicts.folder(claim)):
            look = f"tensorboard --logdir {shlex.quote(str(means))}"
            print(f"    {look}  (one run an arm, with bands)", flush=True)

    if plain := [claim for claim in claims if claim.evidence != "training"]:
        from normexp.claims.evidence.initial import import_data  # loads torch

        import_data(plain)
        workers = cores() if options.workers is None else options.workers
        for claim, verdict in zip(plain, _judged(verdicts, plain, workers), strict=True):
            say(claim, verdict)
    if rounds:
        rounds.run(options, finished)
    counts = ", ".join(f"{count} {word}" for word, count in words.items())
    print(f"\n{counts or 'nothing was tested'}; {time.perf_counter() - start:.0f} s")
    return exit_status(failed)


def _judged(verdicts: "Verdicts", claims: Sequence[Claim], workers: int) -> Iterator[dict[str, Any] | str]:
    """The verdict of each claim, or why it has none. Forked processes share what is imported; those that measure time
    are judged alone, in this one. Where a process cannot be copied (macOS, threads, a GPU in use), all are."""
    together = [claim for claim in claims if not measures_time(claim)]
    torch = sys.modules.get("torch")
    alone = threading.active_count() == 1 and not (torch and torch.cuda.is_initialized())
    if min(workers, len(together)) < 2 or sys.platform != "linux" or not alone:
        yield from map(verdicts.verdict, claims)
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(min(workers, len(together)), fork, _keep, (verdicts,)) as pool:
        waiting = {claim.id: pool.submit(_verdict, claim) for claim in together}
        made = {name: future.exception() or future.result() for name, future in waiting.items()}
    for claim in claims:
        found = made[claim.id] if claim.id in made else verdicts.verdict(claim)
        yield f"its process was killed ({found})" if isinstance(found, BaseException) else found


_kept: list["Verdicts"] = []  # of a forked process


def _keep(verdicts: "Verdicts") -> None:
    _kept[:] = [verdicts]
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _verdict(claim: Claim) -> dict[str, Any] | str:
    return _kept[0].verdict(claim)


def exit_status(failed: dict[str, str]) -> int:
    """Print why claims have no verdict. Returns the exit status."""
    for name, reason in failed.items():
        print(f"Error: {name}: {reason}", file=sys.stderr)
    return 1 if failed else 0


def show_plan(claims: Sequence[Claim], rounds: "Rounds | None") -> None:
    """Print how much is missing at most, with estimated times."""
    missing = rounds.missing() if rounds else {}
    known = rounds.known if rounds else {}
    complete = [known[claim.id].claim if claim.id in known else claim for claim in claims]
    print("\n".join([plan_text(complete, missing), *(rounds.notes(missing) if rounds else ())]), flush=True)


def plan_text(claims: list[Claim], missing: dict[str, int]) -> str:
    """Lines for the screen. `missing` has the most runs that each training claim still has to train. Times of the other
    claims come from the yaml."""
    seconds = sum(
        claim.seconds * claim.values for claim in claims if claim.evidence not in ("none", "training")
    )
    wholes = {whole_id(claim.id) for claim in claims}
    parts = f"{len(claims)} parts of {wholes.pop().upper()}" if len(wholes) == 1 < len(claims) else ""
    computed = f", about {duration(seconds)} without training" if seconds else ""
    lines = [f"plan: {parts or pluralize(len(claims), 'claim')}{computed}"]
    for claim in claims:
        if claim.id in missing:
            lines.append(f"  {claim.id}: at most {missing[claim.id]} of {run_count(claim)} runs to train")
    return "\n".join(lines)


def run_count(claim: Claim) -> int:
    """Most training runs: for its seeds, and for those that tune the learning rate; over settings at
    the rates of each cell, before any grid expands."""
    runs_per_seed = len(claim.arms) * len(claim.levels)
    if claim.settings:
        rates = [len(cell.rates) if claim.rate == "own" else 1 for cell in claim.cells.values()]
        return runs_per_seed * claim.seeds * sum(rates)
    return runs_per_seed * (claim.seeds + (len(claim.tune["lr"]) * claim.tune["seeds"] if claim.tune else 0))


def in_one_setting(known: "Known") -> Evidence:
    """Table and verdict of a training claim in one setting."""
    from normexp.claims.evidence.plan import cost

    claim, rates = known.claim, known.tuned()
    table = known.values(claim.seed_range)
    chosen = {f"{arm} {level}".strip(): lr for (arm, level), lr in rates.items()} if claim.tune else {}
    edges = (min(claim.tune["lr"]), max(claim.tune["lr"])) if claim.tune else ()
    return table, judge(table, claim) | {
        "learning_rates": chosen or "as in the yaml, or the optimizer's own, in every arm",
        # For these the grid may be too narrow.
        "learning_rates_at_edge": [arm for arm, lr in chosen.items() if lr in edges],
        "runs": cost(known.disk.finished_rows(), known.disk) if known.disk else {},
    }


def measures_time(claim: Claim) -> bool:
    """Whether a law measures how long something takes."""
    return (claim.function or "").startswith("costs.")


def beside_tuned(folder: Path) -> str:
    """A sentence on the same claim's verdict with tuned learning rates."""
    try:
        word = json.loads((folder / VERDICT).read_text())["verdict"].upper()
    except FileNotFoundError:
        return f"with each arm's own learning rate: not yet known; leave tune=none out for {folder / VERDICT}"
    return f"with each arm's own learning rate: {word} ({folder / VERDICT})"
