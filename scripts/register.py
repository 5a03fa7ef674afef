"""Fix a protocol before its first run: `python scripts/register.py claim=P10 reason="..."`; `--help` explains."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # works without installing the package

from normexp.commands.register import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
