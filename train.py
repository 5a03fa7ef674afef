"""Train one network with a norm of your choice: `python train.py norm=layernorm`; `--help` explains the rest."""

from normexp.cli.train import main

if __name__ == "__main__":
    main()
