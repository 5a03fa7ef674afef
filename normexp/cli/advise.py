"""What to expect of each norm in a setting before it is trained: `normexp advise model=cnn batch_size=16`."""

from types import SimpleNamespace

from normexp.cli.command import command


@command("advise")
def main(args: SimpleNamespace) -> None:
    """Print what was asked for. Raises ValueError with one line for words that do not belong together."""
    from normexp.advise import advice
    from normexp.advise.forecast import Forecast
    from normexp.advise.measured import measured
    from normexp.claims.evidence.table import EVIDENCE
    from normexp.claims.spec.bank import load_bank

    if norm := next((word for word in args.others if word.startswith("norm=")), ""):
        raise ValueError(f"{norm}: every norm of the bank is compared; leave it out")
    if not args.others:
        raise ValueError("name your setting, such as model=cnn batch_size=16 max_steps=2000; --help explains")
    bank = load_bank(args.bank)
    forecast = Forecast(measured(bank, args.evidence or EVIDENCE) if bank.drawn else [], bank.norms)
    print(advice.advice(forecast, advice.labels_of_own(args.others), bank.name))
