"""A report of a study: `normexp report outputs/<name>`; `--help` explains the rest."""

import argparse
import sys
import time
from pathlib import Path
from typing import NoReturn

from normexp.config.process import prepare, program, typed


class Parser(argparse.ArgumentParser):
    """Argparse with errors of one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"Error: {message}; --help explains\n")


def main(arguments: list[str] | None = None) -> int:
    """Write the report that the arguments ask for. Returns the exit status."""
    prepare()
    parser = Parser(
        prog=program("report"),
        description="Figures, tables and one self-contained page about the finished runs of a study.",
    )
    parser.add_argument(
        "folder", nargs="*", help="of the study: outputs/<name>; of two studies, to pair them run by run; and "
        "key=value, these runs alone: model=mlp norm=none,layernorm",
    )  # fmt: skip
    parser.add_argument(
        "--metric", default="test/accuracy", help="final value to compare (default: %(default)s)"
    )
    parser.add_argument(
        "--baseline", help="arm that differences refer to (default: none, if the study has it)"
    )
    parser.add_argument("--out", type=Path, help="where to write (default: <folder>/report)")
    parser.add_argument(
        "--watch",
        nargs="?",
        type=positive,
        const=30,
        metavar="SECONDS",
        help="write it again while a sweep runs (default: every %(const)s seconds)",
    )
    if "--compare" in (sys.argv[1:] if arguments is None else arguments):
        parser.error("--compare: write the folders alone, report A B")
    asked = parser.parse_args(arguments)
    words = [one for one in asked.folder if "=" in one and not Path(one).exists()]
    asked.only = dict(word.split("=", 1) for word in words)
    for name in ("metric", "baseline"):  # as every other command writes options
        setattr(asked, name, asked.only.pop(name, getattr(asked, name)))
    asked.folder = [Path(one) for one in asked.folder if one not in words]
    if not asked.folder:
        parser.error("name the folder of a study, such as outputs/runs")
    try:
        page = watch(asked) if asked.watch else report(asked)
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"Error: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    print(f"report: {page}")
    return 0


def positive(text: str) -> int:
    """A whole number of seconds, for argparse."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text} is no whole number of seconds; put the folder before --watch"
        )
    return int(text)


# pandas and matplotlib take a second to import, so import them only when needed.


def report(asked: argparse.Namespace, refresh: int | None = None) -> Path:
    """Write the page of one study. Returns its path."""
    from rich.console import Console

    from normexp.report.finding import look_at, show_answer
    from normexp.report.page import write_report
    from normexp.report.study import open_study
    from normexp.report.tensorboard_means import address, in_path, write_mean_runs

    first, *others = asked.folder
    study = open_study(asked.folder if others else first, asked.metric, asked.only)
    values = "-".join([*(one.name for one in others), *asked.only.values()])
    out = asked.out or first / (f"report-{in_path(values)}" if values else "report")
    page = write_report(study, out, baseline=asked.baseline, refresh=refresh, made_by=typed(sys.argv))
    means = write_mean_runs(study, out if asked.out or values else first)
    if not refresh:
        show_answer(study, Console(width=None if sys.stdout.isatty() else 160), asked.baseline)
        print(*(look_at(means, address(study)) if means else ()), sep="\n")
    return page


def watch(asked: argparse.Namespace) -> Path:
    """Write the report again and again until the last sweep of each folder has ended. The browser reloads by itself."""
    from normexp.runs.table import still_running

    while True:
        running = any(map(still_running, asked.folder))
        try:
            page = report(asked, refresh=asked.watch if running else None)
            print(f"{time.strftime('%H:%M:%S')} {page}", flush=True)
        except ValueError as error:
            if not running:
                raise
            print(f"{time.strftime('%H:%M:%S')} waiting: {error}", flush=True)
        if not running:
            return page
        time.sleep(asked.watch)
