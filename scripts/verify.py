"""Name a claim, get a verdict with its evidence: `python scripts/verify.py claim=S37`; `--help` lists all claims."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.cli.main import run
from normexp.config.process import end

if __name__ == "__main__":
    end(run("verify", sys.argv[1:]))
