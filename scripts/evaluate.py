"""Evaluate a saved run again, without training: `python scripts/evaluate.py outputs/runs/mlp/layernorm-bs64-s0-...`"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.cli.evaluate import main
from normexp.config.process import run_as_process

if __name__ == "__main__":
    run_as_process(main, sys.argv[1:])
