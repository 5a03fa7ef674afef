"""From selected claims to verdicts on disk and a paragraph each on the screen; what is missing is trained in rounds."""

import dataclasses
import json
import shlex
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from normexp.claims.conclude import conclude, noticed, of_the_grid, unregistered
from normexp.claims.evidence.curves import write_claim_means
from normexp.claims.evidence.disk_runs import (
    MOST_FAILURES,
    DiskRuns,
    complete_cells,
    estimated_seconds,
    keep_out_of_git,
    launch_folder,
    train,
)
from normexp.claims.evidence.keep import keep_claim, keep_verdict
from normexp.claims.evidence.plan import Known, cost, most_missing, plan
from normexp.claims.evidence.stored import StoredEvidence
from normexp.claims.fork_map import fork_map
from normexp.claims.judge import judge
from normexp.claims.judge.plain_words import BEGUN, WIDTH, paragraph, section
from normexp.claims.judge.verdict import UNTUNED, VERDICT, untestable, write_verdict
from normexp.claims.pages.figure import draw
from normexp.claims.plan_text import by_setting, by_the_bank, plan_text
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.registry import GRID
from normexp.cli.errors import one_line
from normexp.config.process import command as to_type
from normexp.config.process import full_errors
from normexp.config.run_spec import RunSpec
from normexp.machine import cores
from normexp.sweeps.cell import Cell, cells_of
from normexp.sweeps.places.place import Options

if TYPE_CHECKING:
    from normexp.sweeps.grid import Estimates  # loads torch

Evidence = tuple[pd.DataFrame, dict[str, Any]]  # table and verdict


class Verification:
    """The claims of one command.

    Args:
        out: the folder of verdicts; `out/cache` has the runs that all claims share.
        command: to reproduce a claim, with `{id}` in place of its own.
        evidence: the ledger; None to judge from this disk alone.
        registries: where rows are looked for; by default the user's own, then the ledger's.
        keep_in: a ledger in which the values of claims are kept.
    """

    def __init__(
        self,
        claims: Sequence[Claim],
        out: Path,
        *,
        tuned: bool = True,
        command: str,
        evidence: StoredEvidence | None = None,
        registries: Sequence[Path] | None = None,
        keep_in: Path | None = None,
    ):
        self.claims, self.out, self.tuned, self.command = claims, out, tuned, command
        self.registries, self.keep_in = registries, keep_in
        self.failed: dict[str, str] = {}  # claim -> why it has no verdict
        self._failures: Counter[Path] = Counter()
        self._errors: dict[Path, str] = {}
        self._estimates: Estimates | None = None
        self.known: dict[str, Known] = {}
        for claim in claims:
            if claim.evidence == "training":
                self._try(claim, lambda own: self._add(own, evidence))

    def _add(self, claim: Claim, evidence: StoredEvidence | None) -> None:
        if claim.tune and not self.tuned:  # a protocol of its own
            claim = dataclasses.replace(claim, tune=None)
        if claim.drawn and not any(cell.updates for cell in claim.cells.values()):
            raise ValueError(f"its settings have no pilot yet: normexp evidence pilot bank={claim.bank}")
        disk = DiskRuns(claim := complete_cells(claim), self.out / "cache", self._failures)
        self.known[claim.id] = Known(claim, evidence, disk)

    def show_plan(self) -> None:
        """Print how much is missing at most, with estimated times."""
        missing = {
            name: most for name in list(self.known) if (most := self._try(name, self._most)) is not None
        }
        complete = [self.known[one.id].claim if one.id in self.known else one for one in self.claims]
        print(plan_text(complete, missing), flush=True)
        for name in missing:
            claim, notes = self.known[name].claim, [of_the_grid(self.known[name])]
            if missing[name] and (reason := unregistered(claim, self.registries)):
                asked = shlex.split(self.command.format(id=name))
                words = [word for word in asked if word.partition("=")[0] in ("claim", "bank", "registry")]
                notes.append(
                    f"{reason}, so its runs come before its registration, and its word stays unregistered; stop, and "
                    f"fix its protocol first: {to_type('register')} {shlex.join(words)} reason=..."
                )
            for note in filter(None, notes):
                print(f"  {name}: {note}", flush=True)

    def _most(self, name: str) -> int:
        return most_missing(self.known[name].claim, self.known[name])

    def show_runs(self, options: Options) -> None:
        """Print the runs of the next round, and those of each setting; without data or pilots, what files say."""
        for claim in self.claims:
            if claim.cells and claim.id in self.failed and claim.id not in self.known:
                print("\n".join(by_the_bank(claim, self.failed.pop(claim.id))))
        if found := self._planned(list(self.known)):
            self._run(found, options)

    def _seconds(self, specs: Sequence[RunSpec], threads: int) -> list[float | None]:
        """Seconds of each run with so many threads."""
        import torch

        from normexp.sweeps.grid import Estimates

        torch.set_num_threads(threads)
        if self._estimates is None:
            self._estimates = Estimates(each_norm=False)
        return estimated_seconds(specs, self._estimates)

    def run(self, options: Options, conclude: Callable[[Claim, Evidence | None], None]) -> None:
        """Train in rounds what is missing; `conclude` is called for each claim when nothing is, with its table and
        verdict. Exits with 128 and the signal when interrupted."""
        by_id = {claim.id: claim for claim in self.claims}
        waiting = [name for name in self.known if name not in self.failed]
        while waiting:
            found = self._planned(waiting)
            missing = {known.claim.id for known, _ in found}
            for name in [name for name in waiting if name not in missing]:
                waiting.remove(name)
                if name not in self.failed:
                    evidence = self._try(name, lambda own: self._judged(self.known[own]))
                    if evidence is not None:
                        conclude(by_id[name], evidence)
            if found and (status := self._run(found, options)) > 128:
                sys.exit(status)

    def compared(self, claim: Claim) -> list:
        """The runs that the verdict of one setting compares, see `Known.compared`."""
        return [] if claim.settings else self.known[claim.id].compared()

    def _planned(self, names: Sequence[str]) -> list[tuple[Known, list[RunSpec]]]:
        found = []
        for name in names:
            specs = self._try(name, lambda own: plan(self.known[own].claim, self.known[own]))
            if specs:
                found.append((self.known[name], specs))
        return found

    def _run(self, found: list[tuple[Known, list[RunSpec]]], options: Options) -> int:
        from normexp.sweeps.engine import place_of  # loads torch

        specs = [spec for _, own in found for spec in own]
        disks = [known.disk for known in self.known.values() if known.disk]
        shown = {path: words for disk in disks for path, words in disk.shown.items()}
        folder = launch_folder(self.out / "cache")
        place = place_of(specs, options, folder)
        threads = max(place.threads, 1)
        times = self._seconds(specs, threads)
        if options.plan:
            for line in by_setting(found, [None if own is None else own * threads for own in times]):
                print(line, flush=True)
        cells = cells_of(specs, [shown[spec.folder] for spec in specs], times)
        for cell in cells:
            cell.memory = self._estimates.memory if self._estimates else 0
        if not options.plan:
            keep_out_of_git(self.out)
        command = self.command.format(id=",".join(claim.id for claim in self.claims))
        status = train(cells, options, folder, command, place=place)
        for cell in cells:
            self._note(cell)
        return status

    def _note(self, cell: Cell) -> None:
        """Count failures. The same error twice is one of its own, and would come again."""
        if cell.state != "failed":
            return
        for folder in cell.folders:
            again = self._errors.get(folder) == cell.error
            self._failures[folder] += MOST_FAILURES if again else 1
            self._errors[folder] = cell.error or ""
            if self._failures[folder] >= MOST_FAILURES:
                why = f"{cell.run}: {cell.error or cell.state} ({cell.log})"
                for name, known in self.known.items():
                    if known.disk and folder in known.disk.shown:
                        self.failed.setdefault(name, why)

    def _judged(self, known: Known) -> Evidence:
        claim, start = known.claim, time.perf_counter()
        if claim.name == GRID:  # trained for all claims, judged by each
            table, verdict = pd.DataFrame(), dict[str, Any]()
        elif claim.settings:
            table, verdict = conclude(claim, known, registries=self.registries)
        else:
            table, verdict = in_one_setting(known)
        return table, verdict | {"seconds": time.perf_counter() - start}

    def _try(self, claim: Any, call: Callable[[Any], Any]) -> Any:
        """What a call gives; None, with the reason in `failed`, if the claim cannot run. Others go on."""
        name = claim if isinstance(claim, str) else claim.id
        if name in self.failed:
            return None
        try:
            return call(claim)
        except Exception as error:
            self.failed[name] = why(error)
            return None

    # What one claim comes to.

    def verdict(self, claim: Claim, evidence: Evidence | None = None) -> dict[str, Any] | str:
        """The verdict of a claim, written to its folder, or one line that says why there is none."""
        try:
            if claim.evidence == "none":
                verdict = untestable(claim, self.command.format(id=claim.id))
                write_verdict(self.out / claim.id, verdict)
                return verdict
            return self._write(claim, evidence)
        except Exception as error:
            return why(error)

    def _write(self, claim: Claim, evidence: Evidence | None) -> dict[str, Any]:
        """Write `verdict.json`, `evidence.csv`, `figure.png`, `section.md`, and what is to be kept.

        The verdict without tuning has its own folder. It never replaces the tuned one.
        """
        start, command = time.perf_counter(), self.command.format(id=claim.id)
        folder = self.folder(claim)
        untuned = folder.name == UNTUNED
        if untuned:  # a protocol of its own, so that its verdict is not taken for the claim's
            claim, command = dataclasses.replace(claim, tune=None), f"{command} tune=none"
        table, verdict = evidence or without_training(claim, self.registries)
        verdict = noticed(verdict, claim, self.registries)
        seconds = time.perf_counter() - start + verdict.get("seconds", 0.0)  # those of training stand there
        verdict |= {"untuned": untuned, "seconds": round(seconds, 2), "command": command}
        write_verdict(folder, verdict)
        table.to_csv(folder / "evidence.csv", index=False)
        if verdict["verdict"] != BEGUN:  # nothing is shown of some settings, either
            draw(table, verdict, folder / "figure.png")
        (folder / "section.md").write_text(section(verdict))
        if self.keep_in and not untuned:
            self._keep(self.keep_in, claim, table, verdict)
        return verdict

    def _keep(self, folder: Path, claim: Claim, table: pd.DataFrame, verdict: dict[str, Any]) -> None:
        """Keep what a verdict was read from: the runs of a training claim over settings, the values of any other."""
        if claim.settings and claim.evidence == "training":
            print(keep_claim(folder, self.known[claim.id]), flush=True)
        else:
            keep_verdict(folder, claim, table, verdict)

    def folder(self, claim: Claim) -> Path:
        """The folder of a claim's verdict. The verdict without tuning lies in a folder below."""
        return self.out / claim.id / UNTUNED if claim.tune and not self.tuned else self.out / claim.id


def verify_all(
    claims: list[Claim],
    out: Path,
    *,
    options: Options | None = None,
    **given: Any,
) -> int:
    """Print the plan, train what is missing, and print a paragraph for each verdict. A claim that fails to run is named
    at the end and makes the exit status 1; any verdict makes it 0. The other arguments are those of `Verification`."""
    start, options = time.perf_counter(), options or Options()
    own = Verification(claims, out, **given)
    own.show_plan()
    if options.plan:
        own.show_runs(options)
        return _end(own, None)
    words: Counter[str] = Counter()

    def say(claim: Claim, verdict: dict[str, Any] | str) -> None:
        if isinstance(verdict, str):
            own.failed[claim.id] = verdict
        elif claim.evidence == "none":
            print(f"\n{claim.id}  CANNOT BE TESTED: {claim.sentence}\n    {claim.reason}", flush=True)
        else:
            words[verdict["verdict"]] += 1
            width = min(WIDTH, shutil.get_terminal_size((WIDTH, 50)).columns)
            print(f"\n{paragraph(verdict, width)}")
            if verdict["untuned"]:
                print(f"    {beside_tuned(out / claim.id)}")
            print(f"    {own.folder(claim) / VERDICT}", flush=True)

    def trained(claim: Claim, evidence: Evidence | None) -> None:
        say(claim, own.verdict(claim, evidence))
        if means := write_claim_means(own.compared(claim), own.folder(claim)):
            print(
                f"    tensorboard --logdir {shlex.quote(str(means))}  (one run an arm, with bands)",
                flush=True,
            )

    plain = [claim for claim in claims if claim.evidence != "training"]
    workers = cores() if options.workers is None else options.workers
    if plain:
        from normexp.claims.evidence.initial import import_data  # loads torch

        import_data(plain)
    for claim, verdict in zip(plain, fork_map(own.verdict, plain, workers, measures_time), strict=True):
        say(claim, verdict)
    own.run(options, trained)
    counts = ", ".join(f"{count} {word}" for word, count in words.items())
    return _end(own, f"\n{counts or 'nothing was tested'}; {time.perf_counter() - start:.0f} s")


def _end(own: Verification, line: str | None) -> int:
    if line:
        print(line)
    for name, reason in own.failed.items():
        print(f"Error: {name}: {reason}", file=sys.stderr)
    return 1 if own.failed else 0


def in_one_setting(known: Known) -> Evidence:
    """Table and verdict of a training claim in one setting."""
    claim, rates = known.claim, known.tuned()
    table = known.values(claim.seed_range)
    verdict = judge(table, claim)
    chosen = {f"{arm} {level}".strip(): lr for (arm, level), lr in rates.items()} if claim.tune else {}
    edges = (min(claim.tune["lr"]), max(claim.tune["lr"])) if claim.tune else ()
    return table, verdict | {
        "learning_rates": chosen or "as in the yaml, or the optimizer's own, in every arm",
        # For these the grid may be too narrow.
        "learning_rates_at_edge": [arm for arm, lr in chosen.items() if lr in edges],
        "runs": cost(known.disk.known(), known.disk) if known.disk else {},
    }


def without_training(claim: Claim, registries: Sequence[Path] | None = None) -> Evidence:
    """Table and verdict of a claim about laws, or about networks at initialization."""
    if claim.settings:
        return conclude(claim, registries=registries)
    from normexp.claims.evidence.initial import gather  # loads torch
    from normexp.claims.evidence.search import search

    table = search(claim) if claim.search else gather(claim)
    return table, judge(table, claim)


def measures_time(claim: Claim) -> bool:
    """Whether a law measures how long something takes."""
    return (claim.function or "").startswith("costs.")


def why(error: Exception) -> str:
    """An error in one line, after its traceback if the user asked for it."""
    if full_errors():
        traceback.print_exc()
    return one_line(error)


def beside_tuned(folder: Path) -> str:
    """A sentence on the same claim's verdict with tuned learning rates."""
    try:
        word = json.loads((folder / VERDICT).read_text())["verdict"].upper()
    except FileNotFoundError:
        return f"with each arm's own learning rate: not yet known; leave tune=none out for {folder / VERDICT}"
    return f"with each arm's own learning rate: {word} ({folder / VERDICT})"
