"""`normexp advise model=cnn batch_size=16`: what to expect of each norm in a setting before it is trained."""

from pathlib import Path

from normexp.format import tell


def advise(*overrides: str, bank: str = "drawn", evidence: Path | None = None) -> None:
    """What to expect of each norm in your own setting, from the measured settings of a bank: the order of norms with
    intervals, the nearest settings, and what was not measured.

    - `normexp advise model=cnn batch_size=16 max_steps=2000`
    - `normexp advise bank=mine.yaml evidence=DIR model=mlp`

    Args:
        overrides: your setting, in the words of normexp train
        bank: a name, or a file of your own
        evidence: a folder of kept runs; by default that of the package
    """
    from normexp.advise import advice
    from normexp.advise.forecast import Forecast, measured
    from normexp.claims.evidence.table import EVIDENCE
    from normexp.claims.spec.bank import load_bank

    if norm := next((word for word in overrides if word.startswith("norm=")), ""):
        raise ValueError(f"{norm}: every norm of the bank is compared; leave it out")
    if not overrides:
        raise ValueError("name your setting, such as model=cnn batch_size=16 max_steps=2000; --help explains")
    known = load_bank(bank)
    forecast = Forecast(measured(known, evidence or EVIDENCE) if known.drawn else [], known.norms)
    tell(advice.advice(forecast, advice.labels_of_own(overrides), known.name))
