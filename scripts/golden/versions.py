"""The version of the code, in the form that records of runs use, and the machine on which it ran."""

import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import torch


def version(checkout: Path) -> dict[str, Any]:
    """Commit, and the digest of each class that the project's configurations can name: `sources` as today, or `older`
    if the code is older than `sources`."""
    texts = [path.read_text() for path in sorted((checkout / "configs").rglob("*.yaml"))]
    named = {name for text in texts for name in re.findall(r"_target_: *(normexp[\w.]+)", text)}
    named |= {f"normexp.norms.{name}" for name in ("WeightNormalization", "WeightStandardization")}
    command = ["git", "-C", str(checkout), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {"commit": commit, **digests(sorted(named))}


def digests(names: list[str]) -> dict[str, dict[str, str]]:
    config = {"monitor": {}, **{name: {"_target_": name} for name in names if "monitors" not in name}}
    config["monitor"] = {name: {"_target_": name} for name in names if "monitors" in name}
    try:
        from normexp.config.code import REPLICAS, TRAINING, sources
    except ImportError:  # the code is older than `sources`, which came with 4118e89
        from normexp.sources import sources

        return {"older": sources(config)}
    return {"sources": sources(config, TRAINING, REPLICAS)}


def place() -> dict[str, Any]:
    """The machine and the libraries on which the bits of a result depend."""
    cpu = (
        re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        if Path("/proc/cpuinfo").exists()
        else None
    )
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()} {cpu[1] if cpu else platform.processor()}",
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }
