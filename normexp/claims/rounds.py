"""Train what claims need, in rounds, and say beforehand what that is: runs by setting, and their time on one core."""

import dataclasses
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.claims.conclude import of_the_grid, unregistered
from normexp.claims.evidence.disk_runs import (
    LADDER,
    MOST_FAILURES,
    DiskRuns,
    complete_cells,
    estimated_seconds,
    keep_out_of_git,
    launch_folder,
    train,
)
from normexp.claims.evidence.plan import Known, most_missing, plan
from normexp.claims.evidence.stored import StoredEvidence
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.population import RATES
from normexp.config.errors import why
from normexp.config.process import command as to_type
from normexp.config.run_spec import RunSpec
from normexp.format import duration, pluralize
from normexp.sweeps.options import Options

if TYPE_CHECKING:
    from normexp.sweeps.cell import Cell
    from normexp.sweeps.estimate import Estimates  # loads torch

Planned = list[tuple[Known, list[RunSpec]]]  # what each claim needs next


class Rounds:
    """The training claims of one command.

    Args:
        out: the folder of verdicts; `out/cache` has the runs that all claims share.
        command: to reproduce a claim, with `{id}` in place of its own.
        evidence: the ledger; None to judge from this disk alone.
        registries: where rows are looked for; by default the user's own, then the ledger's.
    """

    def __init__(
        self,
        claims: Sequence[Claim],
        out: Path,
        *,
        command: str,
        tuned: bool = True,
        evidence: StoredEvidence | None = None,
        registries: Sequence[Path] | None = None,
    ):
        self.claims, self.out, self.command, self.registries = list(claims), out, command, registries
        self.failed: dict[str, str] = {}  # claim -> why it has no verdict
        self._caused: dict[str, Exception] = {}  # claim -> what is behind its reason
        self._failures: Counter[Path] = Counter()
        self._errors: dict[Path, str] = {}
        self._estimates: Estimates | None = None
        self.known: dict[str, Known] = {}
        for claim in claims:
            self._try(claim.id, self._add, untuned(claim, tuned), evidence)

    def _try(self, name: str, call: Callable[..., Any], *given: Any) -> Any:
        """What a call gives; None, with the reason in `failed`, if the claim cannot run. Others go on."""
        if name in self.failed:
            return None
        try:
            return call(*given)
        except Exception as error:
            self.failed[name], self._caused[name] = why(error), error
            return None

    def _add(self, claim: Claim, evidence: StoredEvidence | None) -> None:
        if claim.drawn and not any(cell.updates for cell in claim.cells.values()):
            raise ValueError(f"its settings have no pilot yet: normexp evidence pilot bank={claim.bank}")
        disk = DiskRuns(claim := complete_cells(claim), self.out / "cache", self._failures)
        self.known[claim.id] = Known(claim, evidence, disk)

    def missing(self) -> dict[str, int]:
        """The most runs that each claim still has to train."""
        most_by_claim = {
            name: self._try(name, most_missing, known.claim, known) for name, known in self.known.items()
        }
        return {name: most for name, most in most_by_claim.items() if most is not None}

    def notes(self, missing: dict[str, int]) -> Iterator[str]:
        """Lines for the plan on claims whose verdicts wait for others, or whose runs come before their registration."""
        for name, most in missing.items():
            known = self.known[name]
            if waits := of_the_grid(known):
                yield f"  {name}: {waits}"
            if most and (reason := unregistered(known.claim, self.registries)):
                args = shlex.split(self.command.format(id=name))
                words = [word for word in args if word.partition("=")[0] in ("claim", "bank", "registry")]
                yield (
                    f"  {name}: {reason}, so its runs come before its registration, and its word stays unregistered; "
                    f"stop, and fix its protocol first: {to_type('register')} {shlex.join(words)} reason=..."
                )

    def show_runs(self, options: Options) -> None:
        """Print the runs of the next round, and those of each setting; without data or pilots, what files say."""
        for claim in self.claims:
            if not claim.cells or claim.id not in self.failed:
                continue
            if claim.id not in self.known or lacks_data(self._caused.get(claim.id)):
                self.known.pop(claim.id, None)
                print("\n".join(by_the_bank(claim, self.failed.pop(claim.id))))
        if planned := self._planned(list(self.known)):
            self._run(planned, options)

    def run(self, options: Options, finished: Callable[[Claim, Known], Any]) -> None:
        """Train in rounds what is missing, or show it; `finished` is called for each claim when nothing is. Exits with
        128 and the signal when interrupted."""
        if options.plan:
            self.show_runs(options)
            return
        by_id = {claim.id: claim for claim in self.claims}
        waiting = [name for name in self.known if name not in self.failed]
        while waiting:
            planned = self._planned(waiting)
            missing = {known.claim.id for known, _ in planned}
            for name in [name for name in waiting if name not in missing]:
                waiting.remove(name)
                self._try(name, finished, by_id[name], self.known[name])
            if planned:
                self._run(planned, options)

    def _planned(self, names: Sequence[str]) -> Planned:
        plans = [(known := self.known[name], self._try(name, plan, known.claim, known)) for name in names]
        return [(known, specs) for known, specs in plans if specs]

    def _run(self, planned: Planned, options: Options) -> None:
        from normexp.sweeps.estimate import Estimates  # loads torch

        specs = [spec for _, claim_specs in planned for spec in claim_specs]
        names: dict[Path, str] = {}
        for known in self.known.values():
            names |= known.disk.names if known.disk else {}
        if options.plan:
            self._estimates = self._estimates or Estimates()
            for line in by_setting(planned, estimated_seconds(specs, self._estimates)):
                print(line, flush=True)
        else:
            keep_out_of_git(self.out)
        command = self.command.format(id=",".join(claim.id for claim in self.claims))
        named = [names[spec.folder] for spec in specs]
        for cell in train(specs, options, launch_folder(self.out / "cache"), command, names=named):
            self._note(cell)

    def _note(self, cell: "Cell") -> None:
        """Count failures. The same error twice is one of its own, and would come again."""
        for folder in [cell.folder] if cell.state == "failed" else ():
            again = self._errors.get(folder) == cell.error
            self._failures[folder] += MOST_FAILURES if again else 1
            self._errors[folder] = cell.error or ""
            if self._failures[folder] >= MOST_FAILURES:
                reason = f"{cell.run}: {cell.error or cell.state} ({cell.log})"
                for name, known in self.known.items():
                    if known.disk and folder in known.disk.shown:
                        self.failed.setdefault(name, reason)


def lacks_data(error: BaseException | None) -> bool:
    """Whether data that are not here caused the error. Hydra wraps the errors of what it builds."""
    from normexp.data.base import AbsentData  # loads torch

    while error is not None and not isinstance(error, AbsentData):
        error = error.__cause__
    return error is not None


def untuned(claim: Claim, tuned: bool) -> Claim:
    """The claim; without the tuning of its learning rates, if they are not `tuned`: a protocol of its own."""
    return claim if tuned or not claim.tune else dataclasses.replace(claim, tune=None)


def by_the_bank(claim: Claim, reason: str) -> list[str]:
    """Lines on a claim whose data or pilots are not here: the runs of each setting and in all, by the files of the
    claim and of its bank. Pilots will give each arm three rates."""
    runs_per_rate, rates = (
        len(claim.arms) * len(claim.levels) * claim.seeds,
        RATES if claim.drawn else len(LADDER),
    )
    lines, runs, seconds = [f"    {reason}"], 0, 0.0
    for cell in claim.cells.values():
        n_runs = runs_per_rate * (len(cell.rates) or rates if claim.rate == "own" else 1)
        runs, seconds = runs + n_runs, seconds + n_runs * (cell.seconds or claim.seconds)
        time = duration(n_runs * (cell.seconds or claim.seconds))
        lines.append(
            f"    {claim.id} {cell.name} ({cell.what}): {pluralize(n_runs, 'run')}, {time} by its file"
        )
    hours = f"{seconds / 3600:.1f} core-hours"
    return [f"  {claim.id}: at most {runs} runs, {hours}; nothing is checked or timed", *lines]


def by_setting(planned: Planned, times: Sequence[float | None]) -> Iterator[str]:
    """A line for each setting that has runs to train: their number, and their time on one core."""
    remaining = iter(times)
    for known, specs in planned:
        claim, shown = known.claim, known.disk.shown if known.disk else {}
        seconds_of: dict[str, list[float | None]] = defaultdict(list)
        for spec, seconds in zip(specs, remaining, strict=False):
            if claim.settings:
                seconds_of[shown[spec.folder].setting].append(seconds)
        for name, times_of in seconds_of.items():
            cost = "" if None in times_of else f", {sum(filter(None, times_of)) / 60:.3g} core-minutes"
            yield f"    {claim.id} {name} ({claim.cells[name].what}): {pluralize(len(times_of), 'run')}{cost}"
