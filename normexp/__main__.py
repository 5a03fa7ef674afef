"""Where every command starts: the installed `normexp`, `python -m normexp train norm=layernorm` with a Python of your
choice, and `python train.py`. It imports nothing before Ctrl-C is answered in one line."""

import os
import sys
from typing import NoReturn


def start(*arguments: str) -> NoReturn:
    """Run the command that the first word names, and end this process with its status."""
    try:
        from normexp.cli.main import main

        status = main(arguments)
    except (Exception, KeyboardInterrupt) as error:
        from normexp.config.process import INTERRUPTED, say_and_exit, was_interrupted

        if was_interrupted(error):  # during imports; from then on the command answers it
            say_and_exit("interrupted", INTERRUPTED)
        raise
    from normexp.config.process import end

    end(status)


def process() -> NoReturn:
    """The installed script `normexp`. It finds the user's packages in the present folder, as `python -m` does, but
    last, so that a file there replaces no library."""
    sys.path.append(os.getcwd())
    start(*sys.argv[1:])


if __name__ == "__main__":
    sys.argv[0] = "normexp"  # messages and records name the command
    start(*sys.argv[1:])
