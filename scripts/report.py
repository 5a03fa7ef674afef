"""A report of a study: `python scripts/report.py outputs/<name>`; `--help` explains the rest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.cli.main import run
from normexp.config.process import end

if __name__ == "__main__":
    end(run("report", sys.argv[1:]))
