"""Train one network with a norm of your choice: `python train.py norm=layernorm`; `--help` explains the rest."""

import sys

from normexp.cli.train import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
