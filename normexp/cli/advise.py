"""What to expect of each norm before you train: `normexp advise model=cnn batch_size=16`; `--help` explains."""

from pathlib import Path

from normexp.claims.evidence.stored import EVIDENCE
from normexp.claims.spec.bank import load_bank
from normexp.claims.spec.registry import REGISTRY, default_registry
from normexp.cli.errors import say_error
from normexp.config.folder import read_options
from normexp.config.process import command, prepare

DEFAULTS = {"bank": "drawn", "settings": "", "page": "", "evidence": "", "reason": "", "registry": ""}
REGISTER = "--register"
HELP = """What to expect of each norm in your own setting, from the measured settings of a bank.

  {command} model=cnn batch_size=16 max_steps=2000   the words of normexp train; the order of norms, with
                                                      intervals, the nearest settings, what was not measured
  {command} bank=mine.yaml evidence=DIR model=mlp    from a bank of your own, and its ledger
  {command} settings=serious                         the same for each setting of another bank, beside
                                                      what was measured there
  {command} settings=serious --register reason=...   write these predictions into the registry, before the
                                                      first run of them; registry=FILE
  {command} settings=serious page=docs/advise.md     how often the intervals held on settings left out, and
                                                      predicted beside measured"""


def main(arguments: list[str]) -> int:
    """Say what the arguments ask for. Returns the exit status."""
    prepare()
    if {"-h", "--help"} & set(arguments):
        print(HELP.format(command=command("advise")))
        return 0
    try:
        register = REGISTER in arguments
        given = [one for one in arguments if one != REGISTER]
        own = [one for one in given if one.partition("=")[0] in DEFAULTS]
        print(answer(read_options(own, DEFAULTS), [one for one in given if one not in own], register))
        return 0
    except Exception as error:
        return say_error(error)


def answer(options: dict[str, str], words: list[str], register: bool) -> str:
    """What was asked for, as text. Raises ValueError with one line for words that do not belong together."""
    from normexp.advise import told
    from normexp.advise.forecast import Forecast
    from normexp.advise.told import labels_of_own
    from normexp.claims.evidence.measured import measured
    from normexp.runs.files import atomic_write

    if norm := next((word for word in words if word.startswith("norm=")), ""):
        raise ValueError(f"{norm}: every norm of the bank is compared; leave it out")
    if not (words or options["settings"] or options["page"]):
        raise ValueError("name your setting, such as model=cnn batch_size=16 max_steps=2000; --help explains")
    if register and not (options["settings"] and options["reason"]):
        raise ValueError(f"{REGISTER}: needs settings=BANK, and reason=... that says why")
    evidence = Path(options["evidence"]) if options["evidence"] else EVIDENCE
    bank = load_bank(options["bank"])
    found = measured(bank, evidence) if bank.known_population else []
    forecast = Forecast(found, bank.norms)
    settings = load_bank(options["settings"]) if options["settings"] else None
    if options["page"]:
        path = Path(options["page"])
        with atomic_write(path) as file:
            file.write(told.page(forecast, bank, settings, evidence).encode())
        return f"{path}: advice from {len(forecast.settings)} settings"
    if settings is None:
        return told.advice(forecast, labels_of_own(words), bank.name)
    if register:
        from normexp.cli.register import line, record

        path = Path(options["registry"]) if options["registry"] else default_registry()
        predicted = told.predictions(forecast, settings, bank.name)
        subject = told.subject(settings, bank.name)
        return line(record(path, subject, predicted, options["reason"], [[0, settings.seeds]]))
    registry = Path(options["registry"]) if options["registry"] else evidence / REGISTRY.name
    own = told.serious(forecast, settings, bank.name, evidence, registry)
    source = f"registered in row {own['row']}" if own["row"] else "not registered"
    return "\n".join(filter(None, (f"{settings.name}, {source}:", own["table"], own["held"], own["late"])))
