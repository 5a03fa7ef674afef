"""A norm of one's own beside a bank of networks: `normexp bank add norm=mine`; `--help` explains."""

import shlex
from types import SimpleNamespace

from normexp.cli.command import command
from normexp.config.process import command as to_type


@command()
def main(args: SimpleNamespace) -> int:
    """Add the norm that the words name. Returns the exit status."""
    from normexp.claims.bank_arm import add
    from normexp.claims.evidence.stored import EVIDENCE
    from normexp.claims.spec.bank import load_bank

    action, *norm = args.others
    if action != "add":
        raise ValueError(f"{action}: no such action; write {to_type('bank')} add norm=NAME")
    for word in norm:
        if not word.startswith(("norm=", "norm.")):
            raise ValueError(f"{word}: write norm=NAME, an option norm.KEY=VALUE, or a word of --help")
    if not any(word.startswith("norm=") for word in norm):
        raise ValueError("norm=: is missing; name the norm to add, such as norm=mine")
    words = f"{to_type('bank')} {shlex.join(args.typed)}"
    place = args.evidence or EVIDENCE
    return add(load_bank(args.bank), norm, place, args.out, args.engine, words, args.settings, args.at)
