"""Run `train.py` up to its first training step, and print when each part of the start ended.

`benchmark.py startup` starts this as a script. It prints a JSON of part -> end of the part, in seconds since 1970, and
stops the process.
"""

import time

ends = {"python": time.time()}

import json  # noqa: E402
import os  # noqa: E402
import runpy  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

ROOT = Path(__file__).parents[3]


def mark(part: str) -> None:
    ends[part] = time.time()


def stop_at_first_step(*_: Any) -> None:
    mark("Lightning's preparations")
    print(json.dumps(ends), file=sys.__stdout__, flush=True)
    os._exit(0)


def marked(run):
    """train.py's own `run`, but with its imports made one by one, in their usual order."""
    from normexp.own_process import imports

    def wrapper(cfg) -> None:
        mark("composing")
        with imports():  # as `run` does
            import torch  # noqa: F401

            mark("import torch")
            import pytorch_lightning as pl

            mark("import Lightning")
            import normexp.build
            import normexp.training.launch  # noqa: F401

            mark("import normexp")
        from normexp.lit_model import LitModel

        LitModel.training_step = stop_at_first_step
        fit = pl.Trainer.fit

        def marked_fit(*arguments: Any, **options: Any) -> None:
            mark("building data, model, trainer")
            fit(*arguments, **options)

        pl.Trainer.fit = marked_fit
        run(cfg)

    return wrapper


def main() -> None:
    from normexp import cli

    real = cli.run

    def run(decorated) -> None:
        mark("import Hydra")
        namespace = decorated.__wrapped__.__globals__
        namespace["run"] = marked(namespace["run"])
        real(decorated)

    cli.run = run
    sys.path[0] = str(ROOT)
    sys.argv[0] = "train.py"
    runpy.run_path(str(ROOT / "train.py"), run_name="__main__")


if __name__ == "__main__":
    main()
