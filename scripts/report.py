"""A report of a study: `python scripts/report.py outputs/<name>`; `--help` explains the rest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.cli.report import main
from normexp.config.process import run_as_process

if __name__ == "__main__":
    run_as_process(main, sys.argv[1:])
