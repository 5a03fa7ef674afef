"""Which version of the code was at hand, in which records of runs can name it, and where it ran."""

import platform
import re
import subprocess
from pathlib import Path
from typing import Any

import torch


def version(checkout: Path) -> dict[str, Any]:
    """Commit, and the digest of each class that a configuration of the project can name: `sources` of today's kind, or
    `older` where the code is from before it."""
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
    except ImportError:  # of the older kind, until 4118e89
        from normexp.sources import sources

        return {"older": sources(config)}
    return {"sources": sources(config, TRAINING, REPLICAS)}


def place() -> dict[str, Any]:
    """What else the bits of a result depend on."""
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
