"""Write docs/performance.md from the benchmarks' JSON files: `python scripts/performance_page.py [--docs FOLDER]`

The text is in performance_page.md, beside this file. A section whose file is missing says so.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from . import performance_tables as tables
from . import run_tables
from .performance_tables import Rows
from .performance_targets import targets

ROOT = Path(__file__).parents[3]
TEMPLATE = Path(__file__).with_suffix(".md")
SECTIONS: dict[str, tuple[str, Callable[[Rows], str]]] = {
    "loop": ("loop_benchmark.json", tables.loop),
    "startup": ("startup_benchmark.json", tables.seconds),
    "scale": ("scale_benchmark.json", tables.scale),
    "leak": ("leak_benchmark.json", tables.leak),
    "compiled": ("compiled_benchmark.json", tables.compiled),
    "replicas": ("replicas_benchmark.json", tables.replicas),
    "families": ("families_benchmark.json", run_tables.families),
    "evaluation": ("evaluation_benchmark.json", run_tables.evaluation),
    "synchronizations": ("synchronizations.json", run_tables.synchronizations),
    "equality": ("replicas_equality.json", tables.equality),
    "sweep": ("sweep_benchmark.json", tables.seconds),
    "norms": ("norms_benchmark.json", tables.norms),
    "monitors": ("monitors_benchmark.json", tables.monitors),
}


GPU = "gpu"  # the folder in docs with the same files, measured on a GPU


def read(docs: Path) -> dict[str, Rows]:
    """The rows of each section that has a file."""
    found = found_in(docs)
    if not found:
        raise ValueError(
            f"--docs={docs}: none of {', '.join(file for file, _ in SECTIONS.values())}; measure first"
        )
    return found


def found_in(docs: Path) -> dict[str, Rows]:
    found = {}
    for name, (file, _) in SECTIONS.items():
        path = docs / file
        if path.exists():
            try:
                found[name] = json.loads(path.read_text())
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}: no JSON ({error}); measure it again") from None
            if not found[name]:
                raise ValueError(f"{path}: has no rows; measure it again")
    return found


def page(found: dict[str, Rows], found_gpu: dict[str, Rows] | None = None) -> str:
    found_gpu = found_gpu or {}
    texts = {"gpu": gpu(found_gpu), "missing": missing(found, found_gpu)}
    for name, (file, render) in SECTIONS.items():
        if name not in found:
            texts[name] = f"**Not measured** (no docs/{file}).\n"
        else:
            texts[name] = section(file, found[name], render)
        if name in found_gpu:
            texts[name] += f"\nOn a GPU:\n\n{section(f'{GPU}/{file}', found_gpu[name], render)}"
    texts["targets"] = targets(found)
    if found_gpu:
        texts["targets"] += f"\nOn a GPU:\n\n{targets(found_gpu)}"
    return re.sub(r"\{\{(\w+)\}\}", lambda match: texts[match[1]].rstrip("\n"), TEMPLATE.read_text())


def section(file: str, rows: Rows, render: Callable[[Rows], str]) -> str:
    try:
        return f"{tables.machines(rows)}\n{render(rows)}"
    except KeyError as error:
        raise ValueError(f"{file}: a row has no {error}; measure it again") from None


def gpu(found: dict[str, Rows]) -> str:
    if not found:
        return "**Nothing on this page was measured on a GPU.**"
    return f"Measured on a GPU, too: {', '.join(found)}. All else was measured on CPUs alone."


def missing(found: dict[str, Rows], found_gpu: dict[str, Rows]) -> str:
    """The measurements that this page lacks."""
    absent = [f"- `{name}`: no docs/{file}" for name, (file, _) in SECTIONS.items() if name not in found]
    no_gpu = [name for name in SECTIONS if name not in found_gpu]
    target = "; CUDA graphs; the target of eight times the speed by 16 replicas" * (not found_gpu)
    on_gpu = [f"- On a GPU: {', '.join(no_gpu)}{target}"] if no_gpu else []
    beyond = "- Several devices, float16 and bfloat16, other operating systems, DataLoader workers"
    return "\n".join([*absent, *on_gpu, beyond])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--docs", type=Path, default=ROOT / "docs", help="where the files are and the page goes"
    )
    docs = parser.parse_args().docs
    try:
        text = page(read(docs), found_in(docs / GPU))
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    (docs / "performance.md").write_text(text)
