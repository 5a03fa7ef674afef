"""A report of a study: `normexp report outputs/<name>`; `--help` explains the rest."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace

from normexp.cli.command import command
from normexp.config.process import typed


@command()
def main(args: SimpleNamespace) -> None:
    """Write the report that the words ask for."""
    filters = [word for word in args.others if "=" in word and not Path(word).exists()]
    args.only = dict(word.split("=", 1) for word in filters)
    args.folders = [Path(word) for word in args.others if word not in filters]
    if not args.folders:
        raise ValueError("name the folder of a study, such as outputs/runs; --help explains")
    print(f"report: {watch(args) if args.watch else report(args)}")


# pandas and matplotlib take a second to import, so import them only when needed.


def report(args: SimpleNamespace, refresh: int | None = None) -> Path:
    """Write the page of one study. Returns its path."""
    from rich.console import Console

    from normexp.report.finding import look_at, show_answer
    from normexp.report.page import write_report
    from normexp.report.study import open_study
    from normexp.report.tensorboard_means import address, in_path, write_mean_runs

    first, *others = args.folders
    study = open_study(args.folders if others else first, args.metric, args.only)
    values = "-".join([*(folder.name for folder in others), *args.only.values()])
    out = args.out or first / (f"report-{in_path(values)}" if values else "report")
    page = write_report(study, out, baseline=args.baseline, refresh=refresh, made_by=typed(sys.argv))
    means = write_mean_runs(study, out if args.out or values else first)
    if not refresh:
        show_answer(study, Console(width=None if sys.stdout.isatty() else 160), args.baseline)
        print(*(look_at(means, address(study)) if means else ()), sep="\n")
    return page


def watch(args: SimpleNamespace) -> Path:
    """Write the report again and again until the last sweep of each folder has ended. The browser reloads by itself."""
    from normexp.runs.table import still_running

    while True:
        running = any(map(still_running, args.folders))
        try:
            page = report(args, refresh=args.watch if running else None)
            print(f"{time.strftime('%H:%M:%S')} {page}", flush=True)
        except ValueError as error:
            if not running:
                raise
            print(f"{time.strftime('%H:%M:%S')} waiting: {error}", flush=True)
        if not running:
            return page
        time.sleep(args.watch)
