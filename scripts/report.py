"""A report of a study: `python scripts/report.py outputs/<name>`; `--help` explains the rest."""

import argparse
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="report.py",
        description="Figures, tables and one self-contained page about the finished runs of a study.",
    )
    parser.add_argument("folder", nargs="?", type=Path, help="of the study: outputs/<name>")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar=("A", "B"), help="two studies, paired run by run"
    )
    parser.add_argument(
        "--metric", default="test/accuracy", help="final value to compare (default: %(default)s)"
    )
    parser.add_argument(
        "--baseline", help="arm that differences refer to (default: none, if the study has it)"
    )
    parser.add_argument("--out", type=Path, help="where to write (default: <folder>/report)")
    parser.add_argument(
        "--watch", nargs="?", type=int, const=30, metavar="SECONDS", help="write it again while a sweep runs"
    )
    asked = parser.parse_args(arguments)
    if (asked.folder is None) == (asked.compare is None):
        parser.error("name one folder, or two with --compare")
    try:
        return run(asked)
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def run(asked: argparse.Namespace) -> int:
    from normexp.report.study import open_study  # pandas and matplotlib take a second: only when needed
    from normexp.report.write import write_report

    out = asked.out or asked.folder / "report"
    made_by = " ".join(["python", *sys.argv])
    page = write_report(open_study(asked.folder, asked.metric), out, baseline=asked.baseline, made_by=made_by)
    print(f"report: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
