"""Advice in words: for the screen, for the page, and predictions that were registered beside what was measured."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from normexp.advise.forecast import LEVEL, Expected, Forecast, change, effects_of
from normexp.claims.evidence.choose_rates import tuned_runs
from normexp.claims.evidence.measured import Measured, measured
from normexp.claims.pages import markdown_page, markdown_table
from normexp.claims.spec.bank import Bank
from normexp.claims.spec.cell import NAMES, label
from normexp.claims.spec.registry import REGISTRY, digest, not_after, open_registry
from normexp.config.compose import compose
from normexp.config.process import fast_imports

# The official training images of standard data: to know their number, nobody needs to read them, nor torch.
IMAGES = {"mnist": 60_000, "fashion_mnist": 60_000, "kmnist": 60_000, "cifar10": 50_000, "cifar100": 50_000}


def advice(forecast: Forecast, labels: Mapping[str, str], bank: str) -> str:
    """What to expect in a setting, in lines."""
    first, expected = forecast.norms[0], forecast.expect(labels)
    width = max(map(len, forecast.norms))
    rows = [*((row.effect, row.norm, str(row)) for row in expected), (0.0, first, "")]
    lines = [
        f"your setting: {', '.join(f'{key} {value}' for key, value in labels.items())}",
        f"expected errors on test against {first}, the best norm first ({LEVEL:.0%} intervals, from "
        f"{len(forecast.settings)} settings of bank {bank}):",
        *(f"  {norm:<{width}}  {words}".rstrip() for _, norm, words in sorted(rows, key=lambda row: row[0])),
    ]
    if all(row.low <= 0 <= row.high for row in expected):
        lines.append(f"no interval excludes 0: these settings do not tell the norms from {first} here")
    if outside := forecast.outside(labels):
        lines.append(f"outside what was measured: {'; '.join(outside)}: the intervals do not count there")
    lines.append(f"nearest measured settings, errors of {', '.join(forecast.norms)}:")
    lines += [f"  {point.name}  {point.in_words}, {point.cell.labels['data']}: {errors(point, forecast.norms)}"
              for point in forecast.nearest(labels)]  # fmt: skip
    return "\n".join(lines)


def errors(point: Measured, norms: Sequence[str]) -> str:
    """The errors of a measured setting in %; a failed run counts as a guess."""
    return ", ".join(f"{100 * point.setting.values_of(norm).mean():.2f}%" for norm in norms)


# Predictions for the settings of another bank.


def subject(settings: Bank, bank: str) -> str:
    """The subject of the registry's rows of such predictions."""
    return f"prediction of {settings.name} from {bank}"


def predictions(forecast: Forecast, settings: Bank, bank: str) -> dict[str, Any]:
    """What is expected in each cell of a bank, of the norms that both banks have, as plain values for the registry."""
    norms = [norm for norm in forecast.norms if norm in settings.norms]
    if norms[:1] != [forecast.norms[0]] or len(norms) < 2:
        raise ValueError(
            f"settings={settings.name}: compares no norm with {forecast.norms[0]}; write both into its grid"
        )
    by_cell: dict[str, Any] = {}
    for name, cell in settings.grid.cells.items():
        labels = labels_of_own(cell.overrides)
        told = [row for row in forecast.expect(labels) if row.norm in norms]
        expected = {row.norm: [round(end, 4) for end in (row.effect, row.low, row.high)] for row in told}
        own = {"labels": labels, "overrides": list(cell.overrides), "outside": forecast.outside(labels)}
        by_cell[name] = own | {"expected": expected}
    return {"bank": bank, "norms": norms, "level": LEVEL, "settings": by_cell}


def serious(forecast: Forecast, settings: Bank, bank: str, evidence: Path, registry: Path) -> dict[str, Any]:
    """Predictions beside what was measured: the table, how many were held, the registry's row, and why it came late.
    Raises ValueError with one line for registered predictions that were changed."""
    points, register = measured(settings, evidence), open_registry(registry) if registry.exists() else None
    row, late = register.latest(subject(settings, bank)) if register else None, ""
    if register is None or row is None:
        predicted = predictions(forecast, settings, bank)
    else:
        path = registry.parent / row.file
        predicted = json.loads(path.read_text())
        if digest(predicted) != row.protocol:
            raise ValueError(f"{path}: is not what row {row.number} registered; restore it from git")
        tables = [point.runs.assign(run=point.runs["hash"]) for point in points]
        runs: list[Any] = [run for table in tables for run in table.to_dict("records")]
        late = "; ".join(not_after(row, runs, register.rows_at)[:1])
    table, held = beside(predicted, points)
    edges = ", ".join(edge for point in points for edge in at_edge(point, predicted["norms"]))
    edges = edges and f"A better rate may lie beyond those tried, of which the best is an end: {edges}."
    return {"table": table, "held": held, "row": row and row.number, "late": late, "edges": edges}


def at_edge(point: Measured, norms: Sequence[str]) -> list[str]:
    """The norms whose best rate in a setting, of any seed, is an end of the rates that were tried: a better one may lie
    beyond, since a grid is widened twice at most."""
    tried, best = point.runs.groupby("norm")["lr"].agg(["min", "max"]), tuned_runs(point.runs, "error")
    chosen = sorted(set(zip(best["norm"], best["lr"], strict=True)))
    return [
        f"{point.name} {norm} ({lr:g})"
        for norm, lr in chosen
        if norm in norms and lr in tried.loc[norm].tolist()
    ]


def beside(predicted: Mapping[str, Any], points: Sequence[Measured]) -> tuple[str, str]:
    """(a table of what was predicted beside what was measured, misses included; how many were held, in words)."""
    by_name, rows, inside, norms = {p.name: p for p in points}, [], list[bool](), predicted["norms"]
    for name, prediction in predicted["settings"].items():
        truth = effects_of(by_name[name], norms) if name in by_name else [None] * (len(norms) - 1)
        for norm, measured_here in zip(norms[1:], truth, strict=True):
            expected, outcome = Expected(norm, *prediction["expected"][norm]), "not yet measured"
            if measured_here is not None:
                inside.append(expected.low <= measured_here <= expected.high)
                outcome = f"{change(measured_here)}{'' if inside[-1] else ', a miss'}"
            rows.append((name, norm, str(expected), outcome))
    columns = ("setting", "norm", f"predicted errors against {norms[0]}", "measured")
    if not inside:
        return markdown_table(columns, rows), ""
    held = f"{sum(inside)} of {len(inside)} measured ratios lie inside"
    return markdown_table(columns, rows), f"{held} their {predicted['level']:.0%} interval."


def page(forecast: Forecast, bank: Bank, others: Sequence[Bank], evidence: Path) -> str:
    """The page of coverage on settings left out, and of predictions for the settings of other banks beside what was
    measured there, as Markdown."""
    rows = [
        (row["norm"], f"{row['held']} of {row['n']}", f"a factor of {math.exp(row['width'] / 2):.2f} either way",
         f"{row['missed']:.3f}", f"{row['missed_by_the_median']:.3f}", f"{row['right']} of {row['sure']}")
        for row in forecast.coverage()
    ]  # fmt: skip
    columns = ("norm", "held", "median interval", "mean miss", "miss of the median", "sign right where sure")
    registry = evidence / REGISTRY.name
    results = {own.name: serious(forecast, own, bank.name, evidence, registry) for own in others}
    return markdown_page(
        "advise.md.j2", bank=bank.name, n=len(forecast.settings), level=f"{LEVEL:.0%}", first=forecast.norms[0],
        coverage=markdown_table(columns, rows), results=results,
    )  # fmt: skip


OPTIMIZERS = {"sgd": "SGD", "adamw": "AdamW", "adam": "Adam"}
PLACES = {"pre", "post", "sandwich"}  # of the norm, in a transformer


def labels_of_own(overrides: Sequence[str]) -> dict[str, str]:
    """The labels of the setting that `normexp train` with these words would train. Raises ValueError with one line for
    words that it would refuse, and for data that cannot be read where their number is not given."""
    cfg, choices = compose(overrides)
    with fast_imports():
        from normexp.config.checks import check_kinds
        from normexp.config.run_spec import resolved

    config = resolved(cfg)
    check_kinds(config, choices)
    model = config["model"]
    labels = {"data": _data(config, choices["data"]), "model": label("model", choices["model"])}
    labels |= {"optimizer": OPTIMIZERS.get(choices["optimizer"], choices["optimizer"])}
    for key in ("activation", "initialization"):
        if isinstance(model.get(key), str):
            labels[key] = NAMES[f"model.{key}"].get(model[key], model[key])
    if model.get("norm_position") in PLACES:
        labels["place of the norm"] = label("model.norm_position", model["norm_position"])
    depth = model.get("depth")
    numbers = {"depth": sum(depth) if isinstance(depth, list) else depth, "width": model.get("width")}
    for key, least in (("depth", 0), ("width", 1)):  # a network would refuse these when it is built
        if numbers[key] is not None and numbers[key] < least:
            raise ValueError(f"model.{key}={model[key]}: must be at least {least}")
    examples, updates = _length(config, choices["data"])
    numbers |= {"batch size": config["batch_size"], "examples": examples, "updates": updates}
    return labels | {key: str(value) for key, value in numbers.items() if value}


def _data(config: dict[str, Any], choice: str) -> str:
    """The name of the data; of a text its file's, without ends."""
    if choice == "text_file":
        return Path(str(config["data"]["path"])).name.partition(".")[0]
    return label("data", choice)


def _length(config: dict[str, Any], choice: str) -> tuple[int, int]:
    """(training examples, or characters of a text; updates). The data are read only if the words do not say it."""
    examples, updates = config["data"].get("train_size"), config["max_steps"]
    if not examples and config["data"].get("val_size") in range(1, IMAGES.get(choice, 0)):
        examples = IMAGES[choice] - config["data"]["val_size"]
    if examples and updates:
        return examples, updates
    with fast_imports():
        from normexp.config.targets import load_data
        from normexp.training.lightning import total_steps

    data = load_data(config, None)
    return examples or data.splits["train"].y.numel(), total_steps(config, data)
