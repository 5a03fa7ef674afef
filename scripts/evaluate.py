"""Evaluate a saved run again, without training: `python scripts/evaluate.py outputs/runs/mlp/layernorm-bs64-s0-...`"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.commands.evaluate import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
