"""A norm of one's own beside a bank of networks: `normexp bank add norm=mine`; `--help` explains."""

import shlex
import sys
from pathlib import Path

from normexp.cli.errors import say_error
from normexp.config.folder import read_options
from normexp.config.process import command, prepare

DEFAULTS = {
    "bank": "drawn", "settings": "12", "at": "final", "evidence": "", "out": "outputs/claims", "workers": "auto",
    "allow_targets": "", "config_dir": "",
}  # fmt: skip
HELP = """A norm of your own beside the norms of a bank: only its own runs are trained.

  {command} add norm=mine --plan         what would be trained, and how long it takes
  {command} add norm=mine                train it, print a row, and write row.json, badge.json and badge.svg
  {command} add norm=mine norm.alpha=2   with options of the norm
  {command} add norm=mine --config-dir my_configs allow_targets=[my_package]
                                              settings=12: the first so many of the bank that are trained
                                              at=final or early: the length of the runs
                                              bank=small: the listed settings of docs/bank.md, one length
                                              bank=mine.yaml evidence=DIR: a drawn bank of your own, whose runs lie
                                              in DIR/mine (normexp evidence grid bank=mine.yaml to=DIR/mine)
                                              out=DIR: where runs and DIR/bank go; and the flags of sweeps

A setting counts as ahead or behind where the difference of the test errors lies beyond the practical margin."""


def main(arguments: list[str]) -> int:
    """Do what the first argument names. Returns the exit status."""
    prepare()
    if not arguments or {"-h", "--help"} & set(arguments):
        print(HELP.format(command=command("bank")))
        return 0
    try:
        from normexp.claims.evidence.stored import EVIDENCE
        from normexp.claims.spec.bank import LENGTHS, load_bank
        from normexp.sweeps.places.place import options_of, take_flags

        words = " ".join(map(shlex.quote, arguments))
        (action, *arguments), given = take_flags(arguments)
        if action != "add":
            raise ValueError(f"{action}: no such action; write {command('bank')} add norm=NAME")
        norm = [word for word in arguments if word.startswith(("norm=", "norm."))]
        options = read_options([word for word in arguments if word not in norm], DEFAULTS)
        if not any(word.startswith("norm=") for word in norm):
            raise ValueError("norm=: is missing; name the norm to add, such as norm=mine")
        if not (options["settings"].isdecimal() and int(options["settings"])):
            raise ValueError(f"settings={options['settings']}: must be a whole number of at least 1")
        if options["at"] not in LENGTHS:
            raise ValueError(f"at={options['at']}: choose from {', '.join(LENGTHS)}")
        workers = [("workers", options["workers"])] if options["workers"] != "auto" else []
        bank, engine = load_bank(options["bank"]), options_of([*workers, *given])
        from normexp.claims.bank_arm import add

        place, out = Path(options["evidence"] or EVIDENCE), Path(options["out"])
        words, most = f"{command('bank')} {words}", int(options["settings"])
        return add(bank, norm, place, out, engine, words, most, options["at"])
    except Exception as error:
        return say_error(error)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from there", file=sys.stderr)
        return 130
