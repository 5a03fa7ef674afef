"""`python -m normexp train norm=layernorm`: the command `normexp`, with a Python of your choice."""

import sys

from normexp.cli.main import main
from normexp.config.process import end

if __name__ == "__main__":
    sys.argv[0] = "normexp"  # messages and records name the command
    end(main())
