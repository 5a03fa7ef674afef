"""Measure how often the judge's words are false: `python scripts/calibrate.py`; `--help` explains."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.claims.judge.calibration import calibrate
from normexp.claims.judge.error_rates import CALIBRATION
from normexp.options import read_options

FEWEST = 100
HELP = f"""Measure how often the judge's words are false, and how often it finds an effect whose truth is known.

  python scripts/calibrate.py               10,000 simulated claims a row, some ten minutes of one core
  python scripts/calibrate.py trials=1000   fewer; at least {FEWEST}
  python scripts/calibrate.py out=FILE      where the table goes (docs/evidence/calibration.json)

docs/verdicts.md shows the table when it is next written."""


def main(arguments: list[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        print(HELP)
        return 0
    try:
        options = read_options(arguments, {"trials": "10000", "out": str(CALIBRATION)})
        if not options["trials"].isdecimal() or int(options["trials"]) < FEWEST:
            raise ValueError(f"trials={options['trials']}: must be a whole number of at least {FEWEST}")
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    out, trials, start = Path(options["out"]), int(options["trials"]), time.perf_counter()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        found = calibrate(trials, max(trials // 10, FEWEST), report=lambda line: print(line, flush=True))
        out.write_text(json.dumps(found, indent=1) + "\n")
    except OSError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(f"{out}: {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
