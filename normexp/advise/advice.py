"""Advice in words: what to expect of each norm in a setting, and the labels of a setting that is typed."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from normexp.advise.forecast import LEVEL, Forecast, Measured, change
from normexp.claims.spec.cell import NAMES, label
from normexp.config.compose import compose
from normexp.config.process import fast_imports

LEARNED = Path(__file__).with_name("learned.json")  # of scripts/research/two_questions/export.py
SMALL = math.log(1.2)  # a difference that most norms have in most settings
# The official training images of standard data: their number is known without reading them.
IMAGES = {"mnist": 60_000, "fashion_mnist": 60_000, "kmnist": 60_000, "cifar10": 50_000, "cifar100": 50_000}


def advice(forecast: Forecast, labels: Mapping[str, str], bank: str) -> str:
    """What to expect in a setting, in lines: how far outside of what was measured it lies, the forecast, what it is
    worth, and measured settings."""
    first, expected = forecast.norms[0], forecast.expect(labels)
    outside = forecast.outside(labels)
    bank = f"the {len(forecast.settings)} settings of bank {bank}"
    lines = [
        f"your setting: {', '.join(f'{key} {shown(value)}' for key, value in labels.items())}",
        f"outside of what was measured: {'; '.join(outside)}. No interval holds there, so none is given."
        if outside
        else "inside of what was measured",
        f"test error to expect, relative to that of {first}, from {bank}"
        + (":" if outside else f"; {LEVEL:.0%} intervals:"),
    ]
    width = max(map(len, forecast.norms))
    rows = [(row.effect, row.norm, change(row.effect) if outside else str(row)) for row in expected]
    rows.append((0.0, first, ""))
    lines += [
        f"  {norm:<{width}}  {words}".rstrip() for _, norm, words in sorted(rows, key=lambda row: row[0])
    ]
    if all(abs(row.effect) < SMALL for row in expected):
        lines.append(
            f"each differs from {first} by less than a fifth, as most norms do in most settings: this forecast adds "
            "nothing"
        )
    elif not outside and all(row.low <= 0 <= row.high for row in expected):
        lines.append(f"no interval excludes 0: these settings do not tell the norms from {first} here")
    lines.append("networks that have learned, test errors at each norm's best rate, mean over seeds:")
    lines += [learned(row, forecast.norms) for row in json.loads(LEARNED.read_text())]
    lines.append(f"the nearest of the {len(forecast.settings)} settings, test errors:")
    lines += [f"  {point.name}  {point.in_words}, {point.cell.labels['data']}: {errors(point, forecast.norms)}"
              for point in forecast.nearest(labels)]  # fmt: skip
    return "\n".join(lines)


def shown(value: str) -> str:
    """The value of a label; of a number with commas."""
    return f"{int(value):,}" if value.isdecimal() else value


def learned(row: Mapping[str, Any], norms: Sequence[str]) -> str:
    """A setting whose networks have learned."""
    found = ", ".join(f"{norm} {100 * row['errors'][norm]:.2f}%" for norm in norms if norm in row["errors"])
    return f"  {row['model']} on {row['data']}, {row['updates']:,} updates: {found} ({row['seeds']} seeds)"


def errors(point: Measured, norms: Sequence[str]) -> str:
    """The errors of a measured setting in %; a failed run counts as a guess."""
    return ", ".join(f"{norm} {100 * point.setting.values_of(norm).mean():.2f}%" for norm in norms)


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
    file = Path(str(config["data"].get("path"))).name.partition(".")[0]
    data = file if choices["data"] == "text_file" else label("data", choices["data"])
    labels = {"data": data, "model": label("model", choices["model"])}
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
    if updates < 1:
        raise ValueError(f"max_steps={updates}: trains nothing; ask for one update or more")
    numbers |= {"batch size": config["batch_size"], "examples": examples, "updates": updates}
    return labels | {key: str(value) for key, value in numbers.items() if value}


def _length(config: dict[str, Any], choice: str) -> tuple[int, int]:
    """(training examples, or characters of a text; updates). The data are read only if the words do not say it."""
    own, trainer = config["data"], config["trainer"]
    examples, updates = own.get("train_size"), config["max_steps"]
    if not examples and own.get("val_size") in range(1, IMAGES.get(choice, 0)):
        examples = IMAGES[choice] - own["val_size"]
    other_batches = ("samples_per_class", "tasks", "overfit_batches", "limit_train_batches")
    if examples and choice in IMAGES and not any(own.get(key) or trainer.get(key) for key in other_batches):
        steps = math.ceil(examples // config["batch_size"] / trainer.get("accumulate_grad_batches", 1))
        updates = config["max_epochs"] * steps if updates is None else updates
    if examples and updates is not None:
        return examples, updates
    with fast_imports():
        from normexp.config.targets import load_data
        from normexp.training.lightning import total_steps

    data = load_data(config)
    return examples or data.splits["train"].y.numel(), total_steps(config, data)
