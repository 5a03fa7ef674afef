"""Advice in words: for the screen, for the page, and predictions that were registered beside what was measured."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from normexp.advise.forecast import LEVEL, Expected, Forecast, change, effects_of
from normexp.claims.evidence.measured import Measured, measured
from normexp.claims.pages import markdown_page, markdown_table
from normexp.claims.spec.bank import NAMES, Bank, label
from normexp.claims.spec.registry import REGISTRY, digest, not_after, open_registry
from normexp.config.compose import compose, plain_values
from normexp.config.process import fast_imports

# The official training images of standard data: to know their number, nobody needs to read them, nor torch.
IMAGES = {"mnist": 60_000, "fashion_mnist": 60_000, "kmnist": 60_000, "cifar10": 50_000, "cifar100": 50_000}
PROTOCOLS = "protocols"  # beside the registry: the protocol of each hash


def advice(forecast: Forecast, labels: Mapping[str, str], bank: str) -> str:
    """What to expect in a setting, in lines."""
    first, told = forecast.norms[0], forecast.expect(labels)
    width = max(map(len, forecast.norms))
    rows = sorted(
        [*((own.effect, own.norm, str(own)) for own in told), (0.0, first, "")], key=lambda row: row[0]
    )
    lines = [
        f"your setting: {', '.join(f'{key} {value}' for key, value in labels.items())}",
        f"expected errors on test against {first}, the best norm first ({LEVEL:.0%} intervals, from "
        f"{len(forecast.settings)} settings of bank {bank}):",
        *(f"  {norm:<{width}}  {words}".rstrip() for _, norm, words in rows),
    ]
    if all(own.low <= 0 <= own.high for own in told):
        lines.append(f"no interval excludes 0: these settings do not tell the norms from {first} here")
    if outside := forecast.outside(labels):
        lines.append(f"outside what was measured: {'; '.join(outside)}: the intervals do not count there")
    lines.append(f"nearest measured settings, errors of {', '.join(forecast.norms)}:")
    lines += [f"  {own.name}  {own.in_words}, {own.cell.labels['data']}: {errors(own, forecast.norms)}"
              for own in forecast.nearest(labels)]  # fmt: skip
    return "\n".join(lines)


def errors(own: Measured, norms: Sequence[str]) -> str:
    """The errors of a measured setting in %; a failed run counts as a guess."""
    return ", ".join(f"{100 * own.setting.values_of(norm).mean():.2f}%" for norm in norms)


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
    found: dict[str, Any] = {}
    for name, cell in settings.grid.cells.items():
        labels = labels_of_own(cell.overrides)
        each = {
            one.norm: (one.effect, one.low, one.high) for one in forecast.expect(labels) if one.norm in norms
        }
        found[name] = {
            "labels": labels,
            "overrides": list(cell.overrides),
            "outside": forecast.outside(labels),
        }
        found[name]["expected"] = {norm: [round(v, 4) for v in own] for norm, own in each.items()}
    return {"bank": bank, "norms": norms, "level": LEVEL, "settings": found}


def serious(forecast: Forecast, settings: Bank, bank: str, evidence: Path, registry: Path) -> dict[str, Any]:
    """Predictions beside what was measured: the table, how many were held, the registry's row, and why it came late.
    Raises ValueError with one line for registered predictions that were changed."""
    found, known = measured(settings, evidence), open_registry(registry) if registry.exists() else None
    row, late = known.latest(subject(settings, bank)) if known else None, ""
    if known is None or row is None:
        predicted = predictions(forecast, settings, bank)
    else:
        path = registry.parent / PROTOCOLS / f"{row.subject.replace(' ', '-')}-{row.protocol[:12]}.json"
        predicted = json.loads(path.read_text())
        if digest(predicted) != row.protocol:
            raise ValueError(f"{path}: is not what row {row.number} registered; restore it from git")
        runs: list[Any] = [
            run for own in found for run in own.runs.assign(run=own.runs["hash"]).to_dict("records")
        ]
        late = "; ".join(not_after(row, runs, known.rows_at)[:1])
    table, held = beside(predicted, found)
    return {"table": table, "held": held, "row": row and row.number, "late": late}


def beside(predicted: Mapping[str, Any], found: Sequence[Measured]) -> tuple[str, str]:
    """(a table of what was predicted beside what was measured, misses included; how many were held, in words)."""
    known, rows, inside, norms = {own.name: own for own in found}, [], list[bool](), predicted["norms"]
    for name, own in predicted["settings"].items():
        truth = effects_of(known[name], norms) if name in known else [None] * (len(norms) - 1)
        for norm, measured_here in zip(norms[1:], truth, strict=True):
            expected, told = Expected(norm, *own["expected"][norm]), "not yet measured"
            if measured_here is not None:
                inside.append(expected.low <= measured_here <= expected.high)
                told = f"{change(measured_here)}{'' if inside[-1] else ', a miss'}"
            rows.append((name, norm, str(expected), told))
    columns = ("setting", "norm", f"predicted errors against {norms[0]}", "measured")
    held = (
        f"{sum(inside)} of {len(inside)} measured ratios lie inside their {predicted['level']:.0%} interval"
    )
    return markdown_table(columns, rows), held if inside else ""


def page(forecast: Forecast, bank: Bank, settings: Bank | None, evidence: Path) -> str:
    """The page of coverage on settings left out, and of predictions beside what was measured, as Markdown."""
    rows = [
        (own["norm"], f"{own['held']} of {own['n']}", f"a factor of {math.exp(own['width'] / 2):.2f} either way",
         f"{own['missed']:.3f}", f"{own['missed_by_the_median']:.3f}", f"{own['right']} of {own['sure']}")
        for own in forecast.coverage()
    ]  # fmt: skip
    columns = ("norm", "held", "median interval", "mean miss", "miss of the median", "sign right where sure")
    own = serious(forecast, settings, bank.name, evidence, evidence / REGISTRY.name) if settings else {}
    return markdown_page(
        "advise.md.j2", bank=bank.name, n=len(forecast.settings), level=f"{LEVEL:.0%}", first=forecast.norms[0],
        coverage=markdown_table(columns, rows), settings=settings and settings.name, own=own,
    )  # fmt: skip


OPTIMIZERS = {"sgd": "SGD", "adamw": "AdamW", "adam": "Adam"}
PLACES = {"pre", "post", "sandwich"}  # of the norm, in a transformer


def labels_of_own(overrides: Sequence[str]) -> dict[str, str]:
    """The labels of the setting that `normexp train` with these words would train. Raises ValueError with one line for
    words that it would refuse, and for data that cannot be read where their number is not given."""
    cfg, choices = compose(overrides)
    config = plain_values(cfg)
    model = config["model"]
    found = {"data": _data(config, choices["data"]), "model": label("model", choices["model"])}
    found |= {"optimizer": OPTIMIZERS.get(choices["optimizer"], choices["optimizer"])}
    for key in ("activation", "initialization"):
        if isinstance(model.get(key), str):
            found[key] = NAMES[f"model.{key}"].get(model[key], model[key])
    if model.get("norm_position") in PLACES:
        found["place of the norm"] = label("model.norm_position", model["norm_position"])
    depth = model.get("depth")
    numbers = {"depth": sum(depth) if isinstance(depth, list) else depth, "width": model.get("width")}
    examples, updates = _length(config, choices["data"])
    numbers |= {"batch size": config["batch_size"], "examples": examples, "updates": updates}
    return found | {key: str(value) for key, value in numbers.items() if value}


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
        from normexp.config.construct import load_data
        from normexp.training.lightning import total_steps

    data = load_data(config, None)
    return examples or data.splits["train"].y.numel(), total_steps(config, data)
