"""`normexp advise model=cnn batch_size=16`: what to expect of each norm in a setting before you train."""

from types import SimpleNamespace

from normexp.cli.command import command


@command("advise")
def main(args: SimpleNamespace) -> None:
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
