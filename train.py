"""Train one network with a norm of your choice: `python train.py norm=layernorm`; `--help` explains the rest."""

from normexp.cli.train import main
from normexp.config.process import run_as_process

if __name__ == "__main__":
    run_as_process(main)
