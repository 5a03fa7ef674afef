"""normexp from Python and notebooks: `normexp.train`, `sweep`, `verify` and `report`. Imports nothing heavy.

They take the words of the command line, keywords or dictionaries. They leave nothing behind in the calling process: no
seed, number of threads, environment variable, warning filter or logging level.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normexp.format import pluralize

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class Recorded:
    """What lies in a folder of runs."""

    folder: Path

    @cached_property
    def metrics(self) -> "pd.DataFrame":
        """All recorded values, one row each: step, epoch, seconds, metric, value and the run's settings."""
        from normexp.runs import load

        return load(self.folder)

    @cached_property
    def figures(self) -> "dict[str, Figure]":
        """The figures of the report for which there is data, by name."""
        from normexp.report.drawing import Drawing
        from normexp.report.figures import FIGURES
        from normexp.report.study import open_study
        from normexp.report.style import Style, drawing_style

        study = open_study(self.folder)
        with drawing_style():
            style = Style(study.arms)
            drawn = [item for makers in FIGURES.values() for make in makers for item in make(study, style)]
        return {item.name: item.figure for item in drawn if isinstance(item, Drawing)}


@dataclass(frozen=True)
class Run(Recorded):
    """A finished run.

    Attributes:
        folder: of the run.
        summary: the content of `summary.json`.
    """

    folder: Path
    summary: dict[str, Any]

    def __repr__(self) -> str:
        metrics = self.summary["metrics"]
        from normexp.config.identity import model_label

        choices = self.summary["choices"]
        names = " ".join((model_label(self.summary["config"], choices), choices["norm"], choices["data"]))
        found = metrics["test/accuracy"]
        accuracy = "" if found is None else f", test accuracy {found:.2%}"
        return f"Run({names}, {self.summary['status']}{accuracy}, {self.folder})"


@dataclass(frozen=True)
class Study(Recorded):
    """The finished runs below a folder. A notebook shows it as the report does: finding, tables and cautions."""

    folder: Path

    def __repr__(self) -> str:
        return f"Study({self.folder}, {pluralize(len(self.summaries), 'run')})"

    def _repr_markdown_(self) -> str:
        from normexp.report.page import text_of
        from normexp.report.study import open_study
        from normexp.report.tables import comparison

        study = open_study(self.folder)
        return f"###{text_of(study, comparison(study))}"  # its heading is a small one of the notebook's

    @cached_property
    def summaries(self) -> "pd.DataFrame":
        """One row per run: its settings and final metrics."""
        from normexp.runs import load_summaries

        return load_summaries(self.folder)

    def report(self, **options: Any) -> Path:
        """Write the report, as `normexp.report` does."""
        from normexp.report.page import report

        return report(self.folder, **options)


def words_of(
    settings: Iterable[str | Mapping[str, Any]], keywords: Mapping[str, Any], *, many: bool = False
) -> list[str]:
    """The words of the command line: `norm="layernorm", model__width=64` is `norm=layernorm model.width=64`.

    Args:
        many: a list is an axis of a sweep, `seed=0,1,2`; else it is one value, `[0,1,2]`.
    """
    arguments = []
    for part in (*settings, keywords):
        if isinstance(part, str):
            arguments.append(part)
            continue
        if not isinstance(part, Mapping):
            raise ValueError(f'{part!r}: write "key=value", a dictionary, or key=value as a keyword')
        for key, value in part.items():
            value = value.tolist() if hasattr(value, "tolist") else value  # of NumPy or torch
            axis = many and isinstance(value, list | tuple | range)
            text = ",".join(map(_word, value)) if axis else _word(value)
            arguments.append(f"{key.replace('__', '.')}={text}")
    return arguments


def _word(value: Any) -> str:
    """A value as Hydra's grammar reads it."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_word(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple | range):
        return f"[{','.join(map(_word, value))}]"
    if isinstance(value, str | os.PathLike):
        from normexp.config.options import quoted

        return quoted(os.fspath(value))
    return "null" if value is None else f"{value}".lower() if isinstance(value, bool) else f"{value}"


def _allowing(packages: Iterable[str]) -> list[str]:
    return [f"allow_targets=[{','.join(packages)}]"] if packages else []


def train(
    *overrides: str | Mapping[str, Any],
    allow_targets: Iterable[str] = (),
    config_dir: str | Path | None = None,
    **settings: Any,
) -> Run:
    """Do what `normexp train ...` does, in this process: `normexp.train(norm="layernorm", model__width=64)`.

    A finished run is not trained again.

    Args:
        overrides: words of the command line, `"norm=layernorm"`, or dictionaries, `{"model.width": 64}`. Of one key
            the last counts, so that words which several runs share may come first.
        settings: the same as keywords, with `__` for a point.
        allow_targets: packages of your own that the configuration may name.
        config_dir: a folder of your own configurations, as in `--config-dir`.

    Raises:
        ValueError: with one line, if the command would refuse it.
        KeyboardInterrupt: the run was interrupted. The same call resumes it.
    """
    from normexp.config.process import preserve_global_state

    with preserve_global_state():
        from normexp.config.errors import one_line
        from normexp.config.folder import allow_from, use_folder
        from normexp.config.options import last_of_each
        from normexp.config.run_spec import specs
        from normexp.config.targets import DataOfLaunch
        from normexp.training.train import train as train_run

        argv = last_of_each([*words_of(overrides, settings), *_allowing(allow_targets)])
        allow_from(argv)
        use_folder(config_dir)
        try:
            data = DataOfLaunch()
            (spec,) = specs(argv, data=data)
        except Exception as error:  # Hydra's errors have many lines
            raise ValueError(one_line(error)) from None
        try:
            summary = train_run(spec, f"normexp train {shlex.join(argv)}", data.take(spec.config))
        except SystemExit as interrupted:
            raise KeyboardInterrupt("interrupted; the same call goes on from there") from interrupted
        except ValueError as error:  # such as a network that does not take its images
            raise ValueError(one_line(error)) from error
    return Run(spec.folder, summary)


def sweep(
    *overrides: str | Mapping[str, Any],
    allow_targets: Iterable[str] = (),
    config_dir: str | Path | None = None,
    **settings: Any,
) -> Study:
    """Do what `normexp train -m ...` does, in new processes: `normexp.sweep(norm=["none", "layernorm"], seed=[0, 1])`.

    Finished runs are skipped. The sweep's output is printed here. The arguments are as in `train`; a list is an axis.
    The command is a process of its own, because the processes that it starts import the main module: a script that
    calls this outside `if __name__ == "__main__"` would run again in each of them.

    Raises:
        ValueError: a word is wrong. The message is the sweep's last line.
        RuntimeError: the sweep failed. The message, too.
    """
    folder_options = ["--config-dir", str(config_dir)] if config_dir else []
    from normexp.config.compose import compose, study_of
    from normexp.config.folder import using
    from normexp.config.options import last_of_each

    argv = last_of_each([*words_of(overrides, settings, many=True), *_allowing(allow_targets)])
    _command("train", "-m", *folder_options, *argv)

    with using(config_dir, allow_targets):  # where a preset of the user's own lies
        cfg, _ = compose([word for word in argv if word.startswith(("experiment=", "name=", "outputs="))])
    return Study(Path(cfg.outputs) / (study_of(argv) or cfg.name))


def verify(claim: str, **options: Any) -> dict[str, dict[str, Any]]:
    """Do what `normexp verify claim=...` does, in a new process, as `sweep`: `normexp.verify("S36")["S36"]["verdict"]`.

    Args:
        claim: an id, a name, several with commas, or a file of your own.
        options: of the command, e.g. `out="outputs/claims"`, `bank="gpu"`.

    Returns id -> content of its `verdict.json`. An id includes its halves, S36a and S36b.

    Raises:
        ValueError: the claim or an option is wrong. The message is the command's last line.
        RuntimeError: a run failed. The message, too.
    """
    if not claim or not isinstance(claim, str | os.PathLike):
        raise ValueError(f"claim={claim!r}: name an id, a name, several with commas, or a file of your own")
    given = {key: value for key, value in options.items() if value is not None}
    out = Path(str(given.get("out", "outputs/claims")))
    before = _written(out)
    _command("verify", f"claim={claim}", *(f"{key}={value}" for key, value in given.items()))
    judged = [path for path, at in _written(out).items() if before.get(path) != at]
    return {path.parent.name: json.loads(path.read_text()) for path in judged}


def _written(out: Path) -> dict[Path, int]:
    """When each verdict below a folder was written. Each judgment writes its verdict anew."""
    return {path: path.stat().st_mtime_ns for path in sorted(out.glob("*/verdict.json"))}


def _command(*arguments: str) -> None:
    """Run the command with this Python and print its lines as they come."""
    # A notebook sets FORCE_COLOR, which rich takes for a terminal, and would show each step of a bar as a line.
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "TTY_COMPATIBLE": "0"}
    last = ""
    with subprocess.Popen(
        [sys.executable, "-m", "normexp", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment,
    ) as process:  # fmt: skip
        for line in process.stdout or ():
            print(line, end="", flush=True)
            last = line.strip() or last
    if process.returncode:
        from normexp.config.process import BAD_INPUT

        error = ValueError if process.returncode == BAD_INPUT else RuntimeError
        raise error(
            last.removeprefix("Error: ") or f"normexp {arguments[0]} exited with {process.returncode}"
        )
