"""Train one network with a norm of your choice: `python train.py norm=layernorm`; `--help` explains the rest."""

import sys

from normexp.__main__ import start

if __name__ == "__main__":
    start("train", *sys.argv[1:])
