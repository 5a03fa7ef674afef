"""The ledger of finished runs: `normexp evidence check`; `--help` explains."""

import secrets
import sys
from pathlib import Path

from normexp.claims.evidence.stored import EVIDENCE, StoredEvidence
from normexp.claims.spec.bank import SMALL, Bank, load_bank
from normexp.claims.spec.registry import GRID
from normexp.claims.spec.select import find
from normexp.cli.errors import say_error
from normexp.config.folder import read_options
from normexp.config.process import command, prepare
from normexp.sweeps.places.place import options_of, take_flags

DEFAULTS = {
    "claim": "", "bank": SMALL, "out": "outputs/claims", "to": "", "workers": "auto", "allow_targets": "",
    "config_dir": "", "settings": "", "evidence": "", "n": "20", "seed": "",
}  # fmt: skip
ACTIONS = ("check", "keep", "draw", "pilot", "grid", "audit", "export", "page", "atlas")
HELP = """Finished runs as files that travel: verdicts are judged from them without training.

  {command}                             the same as check
  {command} check [to=DIR]              check a ledger against itself: each file, each row, each accuracy
  {command} keep claim=mine.yaml [bank=cells.yaml] [out=outputs/claims] to=DIR
                                               write the finished runs of a claim into a ledger; claim=bank: a grid's
  {command} draw bank=drawn             the settings of a population: drawn, rejected, and what they cost
  {command} pilot bank=drawn [--plan]   train the pilots, which find lengths and rates; takes the flags of sweeps
  {command} grid [bank=small] [--plan]  train the grid of a bank; of a drawn one setting by setting, each kept in
                                               to=docs/evidence/BANK when it is finished; yours: evidence/BANK beside it
                                               settings=N with pilot or grid: at most N, exit status 75 if more are left
  {command} audit n=20 [bank=drawn] [seed=N] [to=DIR]   train random rows of a ledger again: equal to the last digit
                                               on the same kind of machine, elsewhere within what docs/claims.md says
  {command} export to=FILE.zip          the second archive: learning curves, and losses of test examples
  {command} page to=FILE.md             the page of a bank's grid and its figure
  {command} atlas bank=drawn to=FILE.md for each question of practice a figure over all settings of a bank
                                               evidence=DIR: from another ledger

The ledger of the project comes with the package (docs/evidence in a checkout); `normexp verify evidence=DIR` judges
from another one."""


def main(arguments: list[str]) -> int:
    """Do what the first argument names. Returns the exit status, 1 for a ledger with a mistake."""
    prepare()
    if {"-h", "--help"} & set(arguments):
        print(HELP.format(command=command("evidence")))
        return 0
    try:
        arguments, given = take_flags(arguments)
        action = arguments.pop(0) if arguments and "=" not in arguments[0] else ACTIONS[0]
        if action not in ACTIONS:
            raise ValueError(f"{action}: no such action; choose from {', '.join(ACTIONS)}")
        options = read_options(arguments, DEFAULTS)
        workers = [("workers", options["workers"])] if options["workers"] != "auto" else []
        engine = options_of([*workers, *given])
        bank = load_bank(options["bank"])
        if action == "draw":
            return show_draws(bank)
        if action == "pilot":
            return train_pilots(bank, options, engine)
        if action == "grid" and bank.drawn:
            return train_drawn(bank, options, engine)
        if action == "grid":
            return train_grid(bank, Path(options["out"]), engine)
        if action == "audit":
            return audit(bank, options, engine)
        if action != "check" and not options["to"]:
            raise ValueError(
                f"{action}: to=: is missing; name {'a ledger' if action == 'keep' else 'the file'} to write"
            )
        if action == "keep":
            return keep(options)
        folder = Path(options["to"]) if options["to"] else EVIDENCE
        if action == "check":
            return check(folder)
        if action == "atlas":
            print(write_the_atlas(bank, options))
        else:
            print(write(action, bank, Path(options["to"])))
        return 0
    except Exception as error:
        return say_error(error)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from there", file=sys.stderr)
        return 130


def check(folder: Path) -> int:
    """Print what is wrong with a ledger, and what it lacks."""
    from normexp.claims.evidence.stored import SECOND_ARCHIVE

    stored = StoredEvidence(folder)
    if not stored.manifest:
        raise ValueError(f"to={folder}: has no manifest.json; name a ledger that normexp evidence keep wrote")
    mistakes = stored.check()
    for mistake in mistakes:
        print(f"Error: {mistake}", file=sys.stderr)
    beside = [name for name in stored.manifest if name.endswith(SECOND_ARCHIVE)]
    absent = sum(not (folder / name).exists() for name in beside)
    if absent:
        print(
            f"{absent} of {len(beside)} files of the second archive (curves, losses) are not here; no word needs them"
        )
    print(f"{folder}: {len(stored.manifest)} files, {len(mistakes)} with a mistake")
    return 1 if mistakes else 0


def show_draws(bank: Bank) -> int:
    """Print what was drawn and rejected, and the cost of what is known."""
    from normexp.claims.spec.population import summary

    for line in summary(bank):
        print(line)
    return 0


def train_pilots(bank: Bank, options: dict[str, str], engine) -> int:
    """Train the pilots of a drawn bank. Returns the exit status."""
    from normexp.claims.evidence.pilot import train_pilots

    words = f"{command('evidence')} pilot bank={options['bank']}"
    return train_pilots(bank, Path(options["out"]), engine, words, float(options["settings"] or "inf"))


def train_drawn(bank: Bank, options: dict[str, str], engine) -> int:
    """Train the grid of a drawn bank, one setting after the other in the order drawn, and keep each in the ledger.
    Returns the exit status."""
    from normexp.claims.evidence.disk_runs import drop_checkpoints
    from normexp.claims.evidence.keep import keep_claim, setting_claim
    from normexp.claims.evidence.pilot import MORE
    from normexp.claims.evidence.stored import ledger_of_bank
    from normexp.claims.rounds import Rounds
    from normexp.claims.verify_claims import show_plan

    folder = Path(options["to"]) if options["to"] else ledger_of_bank(bank)
    left = int(options["settings"] or len(bank.cells))
    for name, cell in bank.cells.items():
        if not cell.updates:
            print(f"{name}: has no pilot yet: {command('evidence')} pilot bank={bank.name}")
            return 1
        stored = StoredEvidence(folder)
        if all(f"bank/{one.name}.csv" in stored.manifest for one in bank.at_lengths(name)):
            continue
        if not left:
            return MORE
        words = f"{command('evidence')} grid bank={options['bank']}"
        claim = setting_claim(bank, name)
        own = Rounds([claim], Path(options["out"]), command=words)
        show_plan([claim], own)
        if engine.plan:
            own.show_runs(engine)
        else:
            own.run(engine, lambda claim, known: None)
        for reason in own.failed.values():
            print(f"Error: {name}: {reason}", file=sys.stderr)
        if own.failed:
            return 1
        if not engine.plan:
            known = own.known[name]
            print(keep_claim(folder, known), flush=True)
            if known.disk:
                drop_checkpoints(map(Path, known.disk.known()["folder"]))
        left -= 1
    return 0


def train_grid(bank: Bank, out: Path, options) -> int:
    """Train what is missing of a bank's grid, in rounds. Returns the exit status."""
    from normexp.claims.evidence.keep import grid_claim
    from normexp.claims.rounds import Rounds
    from normexp.claims.verify_claims import show_plan

    words = f"{command('evidence')} grid bank={bank.name}"
    own = Rounds([grid_claim(bank)], out, command=words, evidence=StoredEvidence(EVIDENCE))
    show_plan(own.claims, own)
    if options.plan:
        own.show_runs(options)
    else:
        own.run(options, lambda claim, known: print(f"bank={bank.name}: every run of its grid is finished"))
    for reason in own.failed.values():
        print(f"Error: {reason}", file=sys.stderr)
    return 1 if own.failed else 0


def audit(bank: Bank, options: dict[str, str], engine) -> int:
    """Train random rows of a ledger again. Returns the exit status, 1 if one comes out otherwise."""
    from normexp.claims.evidence.audit import audit as run_audit
    from normexp.claims.evidence.stored import ledger_of_bank

    if not (options["n"].isdecimal() and int(options["n"])):
        raise ValueError(f"n={options['n']}: must be a whole number of at least 1")
    seed = int(options["seed"] or secrets.randbelow(10**6))
    folder = Path(options["to"]) if options["to"] else ledger_of_bank(bank) if bank.drawn else EVIDENCE
    if options["claim"] or not bank.drawn:
        claims = find(options["claim"] or "training", bank)[0]
    else:  # those whose files name this bank; another's would ask for settings that it lacks
        claims = [one for one in find("training")[0] if one.drawn_from == bank]
    words = f"{command('evidence')} audit n={options['n']} bank={options['bank']} seed={seed}"
    out = Path(options["out"]) / "audit"
    return run_audit(StoredEvidence(folder), bank, claims, int(options["n"]), seed, out, engine, words)


def keep(options: dict[str, str]) -> int:
    """Write the finished runs of claims into a ledger."""
    from normexp.claims.evidence.disk_runs import DiskRuns, complete_cells
    from normexp.claims.evidence.keep import grid_claim, keep_claim
    from normexp.claims.evidence.plan import Known

    if not options["claim"]:
        raise ValueError("claim=: is missing; name the claims whose runs to keep, or claim=bank")
    bank, folder = load_bank(options["bank"]), Path(options["to"])
    if options["claim"] == GRID:
        claims = [grid_claim(bank)]
    else:
        claims = [
            one for one in find(options["claim"], bank)[0] if one.evidence == "training" and one.settings
        ]
        if not claims:
            raise ValueError(
                f"claim={options['claim']}: is no training claim over settings; {command('verify')} keep={folder} "
                "keeps its values"
            )
    for claim in claims:
        claim = complete_cells(claim)
        stored = StoredEvidence(folder) if (folder / "manifest.json").exists() else None
        print(keep_claim(folder, Known(claim, stored, DiskRuns(claim, Path(options["out"]) / "cache"))))
    return 0


def write_the_atlas(bank: Bank, options: dict[str, str]) -> str:
    """Write the figures over all settings of a bank. Returns a line on them."""
    from normexp.claims.evidence.measured import measured
    from normexp.claims.pages.atlas import write_atlas

    settings = measured(bank, Path(options["evidence"]) if options["evidence"] else EVIDENCE)
    return write_atlas(Path(options["to"]), bank, settings)


def write(action: str, bank: Bank, path: Path) -> str:
    """Write the second archive, or the page of a bank's grid. Returns a line on it."""
    if action == "export":
        from normexp.claims.evidence.keep import export

        return f"{path}: {export(EVIDENCE, path)} files of learning curves and losses"
    from normexp.claims.evidence.choose_rates import expanded_lr_grid
    from normexp.claims.pages.bank_page import draw_rates, page
    from normexp.runs.files import atomic_write

    rows = StoredEvidence(EVIDENCE).grid_rows(bank.grid.cells)
    bank = expanded_lr_grid(bank, rows)
    figure = "images/bank_rates.png"
    draw_rates(bank, rows, path.parent / figure)
    with atomic_write(path) as file:
        file.write(page(bank, rows, figure).encode())
    return f"{path}, {path.parent / figure}"
