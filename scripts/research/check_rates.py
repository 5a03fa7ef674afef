"""How often is `normexp check` wrong on public networks? They are built small, with random weights.

    python scripts/research/check_rates.py            # all libraries that are installed; goes on where it stopped
    python scripts/research/check_rates.py timm pyg   # these alone
    python scripts/research/check_rates.py --table    # writes docs/data/check_rates.json and prints the counts

Each network has a process of its own with 20 s of processor time for each of its three parts: a check of the fresh
network; 50 updates of AdamW on noise; a check with all options. A row in outputs/check_rates says what was found, and
whether each error and warning is true: `truths.py` has the rule of each kind, written before the first run, with hooks
of its own. Norms are counted a second time by the names of classes in the tree.
"""

import json
import os
import re
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networks
import torch
import truths
from pytest_torch import check_inference_contract
from torch import nn
from torch_audit import audit

import normexp
from normexp.monitors.batches import Step, arguments

ROOT = Path(__file__).parents[2]
ROWS, FILE = ROOT / "outputs" / "check_rates", ROOT / "docs" / "data" / "check_rates.json"
UPDATES, RATE, SECONDS = 50, 1e-3, 20
NORM = re.compile("norm(?!free)|frn", re.IGNORECASE)


class TooLong(BaseException):
    """Raised by the alarm; no check catches it."""


def alarm(*_: Any) -> None:
    raise TooLong


def norms_in_tree(model: nn.Module) -> Counter:
    """The innermost modules that are named as norms, by class; not those that hold other layers with parameters."""
    named = [
        m for m in model.modules() if NORM.search(type(m).__name__) and "parametri" not in type(m).__module__
    ]
    held = {m: {child for child in m.modules() if child is not m} for m in named}
    inner = [
        m
        for m in named
        if not held[m] & set(named) and not any(list(child.parameters()) for child in held[m])
    ]
    return Counter(type(m).__name__ for m in inner)


def update(model: nn.Module, make: Callable) -> int:
    """Updates on noise, as many as fit into half of the time; returns how many."""
    optimizer, begun = (
        torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], RATE),
        time.process_time(),
    )
    for step in range(UPDATES):
        if time.process_time() - begun > SECONDS / 2:
            return step
        optimizer.zero_grad()
        Step(model, probe=True).training_step(make())["loss"].backward()
        optimizer.step()
    return UPDATES


def checked(model: nn.Module, make: Callable, **options: Any) -> dict:
    """What a check says, and which of its warnings are true."""
    batches, begun = [make() for _ in range(3)], time.process_time()
    result = normexp.check(model, batches, **options)
    row = {
        "seconds": round(time.process_time() - begun, 2),
        "facts": result.facts,
        "healthy": len(result.healthy),
    }
    row["not_checked"] = result.not_checked
    row["findings"] = [
        {
            "id": f.id,
            "severity": f.severity,
            "sentence": f.sentence,
            "layers": len(f.layers),
            "first": f.layers[:1],
        }
        | ({} if f.severity == "note" else {"true": truths.is_true(f, model, batches, make, options)})
        for f in result.findings
    ]
    return row


def others(model: nn.Module, make: Callable) -> dict:
    """What torch-audit and pytest-torch say of the same network."""
    batch = make()
    answers: dict[str, Any] = {}
    try:
        optimizer = torch.optim.AdamW(model.parameters(), RATE)
        found = [
            f for phase in ("static", "init") for f in audit(model, phase=phase, optimizer=optimizer).findings
        ]
        answers["torch_audit"] = dict(Counter(f"{f.severity.value} {f.rule_id}" for f in found))
    except Exception as error:
        answers["torch_audit"] = {f"fails: {type(error).__name__}": 1}
    try:
        args, named, _ = arguments(model, batch)
        inputs = named or (args[0] if len(args) == 1 else args)
        report = check_inference_contract(model.eval(), inputs, raise_on_failure=False)
        answers["pytest_torch"] = [check.name for check in report.failures]
    except Exception as error:
        answers["pytest_torch"] = [f"fails: {type(error).__name__}"]
    model.train()
    return answers


def measured(name: str, build: Callable[[], nn.Module], make: Callable[[], Any]) -> dict:
    """The row of one network."""
    torch.manual_seed(0)
    row: dict[str, Any] = {"network": name, "error": ""}
    part = "build"
    try:
        model = build().train()
        row["tree"] = dict(norms_in_tree(model))
        row["parameters"] = sum(p.numel() for p in model.parameters())
        for part in ("fresh", "updates", "updated", "others"):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            if part == "fresh":
                row["fresh"] = checked(model, make)
            elif part == "updates":
                row["updates"] = update(model, make)
            elif part == "updated":
                optimizer = torch.optim.AdamW(model.parameters(), RATE)
                options = {"optimizer": optimizer, "precision": "bf16-mixed", "devices": 1, "steps": UPDATES}
                row["updated"] = checked(
                    model, make, **options, state_dict=model.state_dict(), averaged=model
                )
            else:
                row |= others(model, make)
    except TooLong:
        row["error"] = f"{part}: more than {SECONDS} s"
    except Exception as error:
        row["error"] = f"{part}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    signal.setitimer(signal.ITIMER_PROF, 0)
    return row


def run(libraries: list[str]) -> None:
    """Measure what has no row yet, each in a fork of this process, so that a library is imported once."""
    ROWS.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, alarm)
    normexp.check(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), torch.randn(8, 4))  # imports what it needs
    for library in libraries or networks.LIBRARIES:
        for name, (build, make) in networks.of(library).items():
            path = ROWS / f"{library}_{re.sub('[^a-zA-Z0-9_]+', '_', name)}.json"
            if path.exists():
                continue
            if not (child := os.fork()):
                warnings.simplefilter("ignore")
                row = {"library": library} | measured(name, build, make)
                path.write_text(json.dumps(row, default=str))
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if status:
                path.write_text(
                    json.dumps({"library": library, "network": name, "error": f"process ended: {status}"})
                )
            print(library, name, in_one_line(json.loads(path.read_text())), flush=True)


def missed(row: dict) -> dict:
    """Norms of the tree that the check neither counts nor names as not understood."""
    if "fresh" not in row:
        return {}
    seen = Counter(
        {name: int(n) for n, name in re.findall(r"(\d+) ([\w.]+)", row["fresh"]["facts"][0].split(";")[0])}
    )
    return dict(Counter(row["tree"]) - seen)


def in_one_line(row: dict) -> str:
    parts = [row["error"]] if row["error"] else []
    for when in ("fresh", "updated"):
        if when in row:
            judged = [f"{f['id']}:{f['true']}" for f in row[when]["findings"] if f["severity"] != "note"]
            parts.append(f"{when} {row[when]['seconds']}s {' '.join(judged)}")
    return "; ".join([f"missed {missed(row)}"] * bool(missed(row)) + parts)


def table() -> None:
    """Collect the rows, and count. A network without a norm must be refused with these words."""
    rows = [json.loads(path.read_text()) for path in sorted(ROWS.glob("*.json"))]
    rows = [row for row in rows if not row["error"].startswith(("build", "updates"))]
    for row in rows:
        row["missed"] = missed(row)
        if "has no normalization layer" in row["error"] and not row["tree"]:
            row["error"] = ""
        for check in (row[when] for when in ("fresh", "updated") if when in row):
            check["not_checked"] = list(check["not_checked"])
            check["findings"] = [f if f["severity"] != "note" else {"id": f["id"]} for f in check["findings"]]
    text = ",\n".join(json.dumps(row) for row in rows)
    FILE.write_text(f"[\n{text}\n]\n", encoding="utf-8")
    print(json.dumps(counts(rows), indent=1))


def counts(rows: list[dict]) -> dict:
    """The numbers of the page."""
    both = [row[when] for row in rows for when in ("fresh", "updated") if when in row]
    loud = [f for check in both for f in check["findings"] if f.get("severity", "note") != "note"]
    times = sorted(check["seconds"] for check in both)
    audited = [Counter(key.split()[0] for key in row.get("torch_audit", {})) for row in rows]
    return {
        "networks": len(rows), "libraries": dict(Counter(row["library"] for row in rows)), "checks": len(both),
        "errors": {row["network"]: row["error"] for row in rows if row["error"]},
        "loud": dict(Counter(f["id"] for f in loud)),
        "false": dict(Counter(f["id"] for f in loud if f["true"] is not True)),
        "checks_with_false": sum(any(f.get("true", True) is not True for f in check["findings"]) for check in both),
        "norms": sum(sum(row.get("tree", {}).values()) for row in rows),
        "missed": {row["network"]: row["missed"] for row in rows if row["missed"]},
        "seconds": {"median": times[len(times) // 2], "largest": times[-1]},
        "torch_audit": {kind: sum(kind in row for row in audited) for kind in ("ERROR", "WARN", "INFO", "fails:")},
        "pytest_torch": dict(Counter(name for row in rows for name in row.get("pytest_torch", []))),
    }  # fmt: skip


if __name__ == "__main__":
    libraries = sys.argv[1:]
    table() if libraries == ["--table"] else run(libraries)
