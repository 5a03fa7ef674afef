"""What to expect of each norm before you train: `normexp advise model=cnn batch_size=16`; `--help` explains."""

from types import SimpleNamespace

from normexp.cli.command import command


@command()
def main(asked: SimpleNamespace) -> None:
    """Print what was asked for. Raises ValueError with one line for words that do not belong together."""
    from normexp.advise import advice
    from normexp.advise.forecast import Forecast
    from normexp.claims.evidence.measured import measured
    from normexp.claims.evidence.stored import EVIDENCE
    from normexp.claims.spec.bank import load_bank
    from normexp.claims.spec.registry import REGISTRY, default_registry
    from normexp.runs.files import atomic_write

    if norm := next((word for word in asked.others if word.startswith("norm=")), ""):
        raise ValueError(f"{norm}: every norm of the bank is compared; leave it out")
    if not (asked.others or asked.settings or asked.page):
        raise ValueError("name your setting, such as model=cnn batch_size=16 max_steps=2000; --help explains")
    if asked.register and not (asked.settings and asked.reason):
        raise ValueError("--register: needs settings=BANK, and reason=... that says why")
    bank, evidence = load_bank(asked.bank), asked.evidence or EVIDENCE
    forecast = Forecast(measured(bank, evidence) if bank.known_population else [], bank.norms)
    settings = load_bank(asked.settings) if asked.settings else None
    if asked.page:
        with atomic_write(asked.page) as file:
            file.write(advice.page(forecast, bank, settings, evidence).encode())
        print(f"{asked.page}: advice from {len(forecast.settings)} settings")
    elif settings is None:
        print(advice.advice(forecast, advice.labels_of_own(asked.others), bank.name))
    elif asked.register:
        from normexp.cli.register import line, record

        path, subject = asked.registry or default_registry(), advice.subject(settings, bank.name)
        predicted = advice.predictions(forecast, settings, bank.name)
        print(line(record(path, subject, predicted, asked.reason, [[0, settings.seeds]])))
    else:
        own = advice.serious(
            forecast, settings, bank.name, evidence, asked.registry or evidence / REGISTRY.name
        )
        source = f"registered in row {own['row']}" if own["row"] else "not registered"
        lines = (f"{settings.name}, {source}:", own["table"], own["held"], own["late"])
        print(*filter(None, lines), sep="\n")
