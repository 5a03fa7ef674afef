"""A bank of measured networks beside something of one's own: `normexp bank add norm=mine`, a norm; `normexp advise
model=cnn batch_size=16`, a setting, and what to expect of each norm in it before you train; `--help` explains."""

import shlex
from types import SimpleNamespace

from normexp.cli.command import command
from normexp.config.process import command as to_type


@command("bank")
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


@command("advise")
def advise(args: SimpleNamespace) -> None:
    """Print what was asked for. Raises ValueError with one line for words that do not belong together."""
    from normexp.advise import advice
    from normexp.advise.forecast import Forecast
    from normexp.claims.evidence.measured import measured
    from normexp.claims.evidence.stored import EVIDENCE
    from normexp.claims.spec.bank import load_bank
    from normexp.claims.spec.registry import REGISTRY, default_registry
    from normexp.runs.files import write_text

    if norm := next((word for word in args.others if word.startswith("norm=")), ""):
        raise ValueError(f"{norm}: every norm of the bank is compared; leave it out")
    if not (args.others or args.settings or args.page):
        raise ValueError("name your setting, such as model=cnn batch_size=16 max_steps=2000; --help explains")
    if args.register and not (args.settings and args.reason):
        raise ValueError("--register: needs settings=BANK, and reason=... that says why")
    bank, evidence = load_bank(args.bank), args.evidence or EVIDENCE
    forecast = Forecast(measured(bank, evidence) if bank.known_population else [], bank.norms)
    if args.page:
        others = [load_bank(name) for name in args.settings.split(",") if name]
        write_text(args.page, advice.page(forecast, bank, others, evidence))
        print(f"{args.page}: advice from {len(forecast.settings)} settings")
        return
    if not args.settings:
        print(advice.advice(forecast, advice.labels_of_own(args.others), bank.name))
        return
    settings = load_bank(args.settings)
    if args.register:
        from normexp.cli.register import line, record

        path, subject = args.registry or default_registry(), advice.subject(settings, bank.name)
        predicted = advice.predictions(forecast, settings, bank.name)
        print(line(record(path, subject, predicted, args.reason, [[0, settings.seeds]])))
    else:
        comparison = advice.serious(
            forecast, settings, bank.name, evidence, args.registry or evidence / REGISTRY.name
        )
        source = f"registered in row {comparison['row']}" if comparison["row"] else "not registered"
        lines = (
            f"{settings.name}, {source}:",
            comparison["table"],
            comparison["held"],
            comparison["edges"],
            comparison["late"],
        )
        print(*filter(None, lines), sep="\n")
