"""From selected claims to verdicts on disk and a paragraph each on the screen. What trains is imported where a claim
trains, since it takes more time than a law."""

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

from normexp.claims.judge.plain_words import BEGUN, WIDTH, paragraph, section
from normexp.claims.judge.verdict import VERDICT, judge, untestable, write_verdict
from normexp.claims.pages.figure import draw
from normexp.claims.spec.claim import Claim
from normexp.claims.spec.select import whole_id
from normexp.config.errors import why
from normexp.format import duration, pluralize
from normexp.machine import cores
from normexp.sweeps.options import Options

if TYPE_CHECKING:
    import pandas as pd

    from normexp.claims.train import Rounds, Training


@dataclass(frozen=True)
class Verdicts:
    """The verdicts of one command.

    Args:
        out: their folder.
        command: to reproduce a claim, with `{id}` in place of its own.
        registries: where rows are looked for; by default the user's own, then that of the evidence.
    """

    out: Path
    command: str
    registries: Sequence[Path] | None = None

    def verdict(self, claim: Claim, training: "Training | None" = None) -> dict[str, Any] | str:
        """The verdict of a claim, written to its folder, or one line that says why there is none."""
        try:
            command = self.command.format(id=claim.id)
            if claim.evidence == "none":
                verdict = untestable(claim, command)
                write_verdict(self.out / claim.id, verdict)
                return verdict
            start, folder = time.perf_counter(), self.out / claim.id
            table, verdict = self._judged(claim, training)
            seconds = round(time.perf_counter() - start, 2)
            verdict |= {"seconds": seconds, "command": command}
            write_verdict(folder, verdict)
            table.to_csv(folder / "evidence.csv", index=False)
            if verdict["verdict"] != BEGUN:  # nothing is shown of some settings, either
                draw(table, verdict, folder / "figure.png")
            (folder / "section.md").write_text(section(verdict))
            return verdict
        except Exception as error:
            return why(error)

    def _judged(self, claim: Claim, training: "Training | None") -> "tuple[pd.DataFrame, dict[str, Any]]":
        """Table and verdict: from trained runs, from a law, or from networks before training."""
        if training:
            from normexp.claims.conclude import of_runs

            new = frozenset(training.new)
            return of_runs(training.claim, training.grid, training.table, self.registries, new)
        from normexp.claims.evidence.initial import gather, initial_table  # loads torch

        if claim.settings:
            from normexp.claims.conclude import of_networks

            return of_networks(claim, initial_table(claim), self.registries)
        from normexp.claims.evidence.search import search

        table = search(claim) if claim.search else gather(claim)
        return table, judge(table, claim)


def verify_all(
    claims: list[Claim],
    out: Path,
    *,
    options: Options | None = None,
    evidence: Path | None = None,
    **given: Any,
) -> int:
    """Print the plan, train what is missing, and print a paragraph for each verdict. A claim that fails to run is named
    at the end and makes the exit status 1; any verdict makes it 0. `evidence` is the folder of kept runs; None to judge
    from this disk alone. The other arguments are those of `Verdicts`."""
    start, verdicts, words = time.perf_counter(), Verdicts(out, **given), Counter[str]()
    options, rounds = options or Options(), None
    if training := [claim for claim in claims if claim.evidence == "training"]:
        from normexp.claims.train import Rounds

        rounds = Rounds(training, out, verdicts.command, evidence, verdicts.registries)
    failed: dict[str, str] = rounds.failed if rounds else {}
    todo = rounds.todo() if rounds else {}
    print("\n".join([plan_text(claims), *(rounds.notes(todo) if rounds else ())]), flush=True)
    if options.plan:
        if rounds:
            show_plan(rounds, training, todo, options)
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
            if len(verdict.get("numerics", ())) > 1:
                print(
                    "    its runs were computed by numerics 1 and 2, whose differences docs/data/numerics_2.json has"
                )
            print(f"    {verdicts.out / claim.id / VERDICT}", flush=True)

    def finished(training: "Training") -> None:
        say(training.claim, verdicts.verdict(training.claim, training))
        if means := write_means(training, verdicts.out / training.claim.id):
            print(
                f"    tensorboard --logdir {shlex.quote(str(means))}  (one run an arm, with bands)",
                flush=True,
            )

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


def show_plan(
    rounds: "Rounds", claims: Sequence[Claim], todo: "dict[str, pd.DataFrame]", options: Options
) -> None:
    """Print the runs of the first round; of a claim without its data or pilots, what its files say."""
    from normexp.claims.train import by_the_files

    for claim in claims:
        if claim.cells and claim.id in rounds.failed and "no such" not in rounds.failed[claim.id]:
            print("\n".join(by_the_files(claim, rounds.failed.pop(claim.id))))
    rounds.show({name: rows for name, rows in todo.items() if len(rows)}, options)


def write_means(training: "Training", folder: Path) -> Path | None:
    """Write, of a claim in one setting, a TensorBoard run for each arm, the mean over its seeds. Returns their folder,
    or None if no arm has two seeds."""
    import pandas as pd

    from normexp.report.tensorboard_means import FOLDER, in_path, write_means  # loads TensorBoard
    from normexp.runs.read import read_metrics

    if training.claim.settings or "folder" not in training.table:
        return None
    runs = training.grid.merge(training.table, on=["overrides", "seed", "lr"])
    runs = runs[runs["status"] == "completed"].reset_index(drop=True)
    if runs.empty:
        return None
    rows = read_metrics([Path(folder) for folder in runs["folder"]], runs["steps"].tolist())
    place = [in_path(f"{arm} {level}".strip()) for arm, level in zip(runs["arm"], runs["level"], strict=True)]
    columns = pd.DataFrame({"place": place, "seed": runs["seed"]})
    return write_means(rows.join(columns, on="run"), folder / FOLDER)


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


def plan_text(claims: list[Claim]) -> str:
    """The first line of the plan. Times of what does not train come from the yaml."""
    seconds = sum(
        claim.seconds * claim.values for claim in claims if claim.evidence not in ("none", "training")
    )
    wholes = {whole_id(claim.id) for claim in claims}
    parts = f"{len(claims)} parts of {wholes.pop().upper()}" if len(wholes) == 1 < len(claims) else ""
    computed = f", about {duration(seconds)} without training" if seconds else ""
    return f"plan: {parts or pluralize(len(claims), 'claim')}{computed}"


def measures_time(claim: Claim) -> bool:
    """Whether a law measures how long something takes."""
    return (claim.function or "").startswith("costs.")
