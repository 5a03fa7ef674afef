"""Train one network with a norm of your choice: `python train.py norm=layernorm`; `--help` explains the rest."""

import sys

from normexp.cli.main import run
from normexp.config.process import end

if __name__ == "__main__":
    end(run("train", sys.argv[1:]))
