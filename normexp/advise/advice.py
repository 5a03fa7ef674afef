"""Advice in words: what was measured nearest to a setting, and which findings and answers cover it; and the labels of a
setting that is typed. It forecasts nothing: a forecast held in 10 of 16 learned cells where it promised 13."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from normexp.advise.nearest import NUMBERS, difference, nearest, outside
from normexp.claims.judge.outcomes import Setting
from normexp.claims.spec.cell import NAMES, label
from normexp.config.compose import compose
from normexp.config.options import key_of
from normexp.config.process import fast_imports
from normexp.format import pluralize

LEARNED = Path(__file__).with_name("learned.json")  # of scripts/research/two_questions.py
ANSWERS = Path(__file__).with_name("answers.yaml")
SHOWN = 4  # nearest settings
# The official training images of standard data: their number is known without reading them.
IMAGES = {"mnist": 60_000, "fashion_mnist": 60_000, "kmnist": 60_000, "cifar10": 50_000, "cifar100": 50_000}


def advice(
    settings: Sequence[Setting],
    norms: Sequence[str],
    labels: Mapping[str, str],
    bank: str,
    unread: Sequence[str] = (),
) -> str:
    """What is known of a setting, in lines: how far outside of what was measured it lies, the nearest settings with
    their numbers, networks of its kind that have learned, and the findings and answers that cover it. `unread`: its
    words by which nothing is compared.

    Raises ValueError with one line if no setting of the bank is finished.
    """
    if not settings:
        raise ValueError(f"bank={bank}: no setting of it is finished; name a drawn bank with evidence")
    beyond = outside(settings, labels)
    lines = [
        f"your setting: {', '.join(f'{key} {shown(value)}' for key, value in labels.items())}",
        f"outside of what was measured: {'; '.join(beyond)}" if beyond else "inside of what was measured",
        *([f"not compared: {', '.join(unread)}"] if unread else []),
        f"the nearest of {pluralize(len(settings), 'setting')} of bank {bank}: test errors at each norm's best rate."
        " Distance: doublings of numbers, and 2 for another word",
    ]
    for distance, point in nearest(settings, labels, SHOWN):
        lines.append(f"  {point.name}  distance {distance:.1f}: {errors(point, norms)}")
        lines.append(f"        {apart(labels, point.labels)}")
    kind = [row for row in json.loads(LEARNED.read_text()) if row["model"] == labels["model"]]
    lines.append(f"{labels['model']}s that have learned, at each norm's best rate, mean over seeds:")
    lines += [learned(row, norms) for row in kind] or ["  none was measured"]
    lines.append("findings and answers that cover this setting:")
    lines += [f"  {row['says']} ({row['page']})" for row in answers(labels)] or ["  none"]
    lines.append(
        "These are single settings and their neighbors, no forecast: normexp compare decides in yours."
    )
    return "\n".join(lines)


def answers(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of answers.yaml whose conditions a setting meets: one of several words, or a number within limits."""

    def meets(key: str, asked: Any) -> bool:
        if key not in labels:
            return False
        return asked[0] <= float(labels[key]) <= asked[1] if key in NUMBERS else labels[key] in asked

    rows = yaml.safe_load(ANSWERS.read_text(encoding="utf-8"))
    return [row for row in rows if all(meets(key, asked) for key, asked in row["covers"].items())]


def apart(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """How another setting differs from this one: `batch size 32 instead of 16`."""
    found = sorted(difference(here, there).items(), key=lambda row: -row[1])
    parts = [f"{key} {shown(there[key])} instead of {shown(here[key])}" for key, _ in found]
    return ", ".join(parts) or "equal in all that is named"


def shown(value: str) -> str:
    """The value of a label; of a number with commas."""
    return f"{int(value):,}" if value.isdecimal() else value


def learned(row: Mapping[str, Any], norms: Sequence[str]) -> str:
    """A setting whose networks have learned."""
    found = ", ".join(f"{norm} {100 * row['errors'][norm]:.2f}%" for norm in norms if norm in row["errors"])
    return f"  {row['model']} on {row['data']}, {row['updates']:,} updates: {found} ({row['seeds']} seeds)"


def errors(point: Setting, norms: Sequence[str]) -> str:
    """The errors of a measured setting in %; a failed run counts as a guess."""
    return ", ".join(f"{norm} {100 * point.values_of(norm).mean():.2f}%" for norm in norms)


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


# The keys that labels say. Lengths are said by the number of updates.
COMPARED = {
    "data", "model", "optimizer", "model.activation", "model.initialization", "model.norm_position", "model.depth",
    "model.width", "batch_size", "max_steps", "max_epochs", "data.train_size", "data.val_size", "data.path",
    "data.samples_per_class", "trainer.accumulate_grad_batches", "seed", "name", "outputs", "run_dir", "threads",
}  # fmt: skip


def unread(overrides: Sequence[str]) -> list[str]:
    """The words of a setting of one's own that its labels do not say, such as lr=0.1."""
    return [word for word in overrides if key_of(word) not in COMPARED]


def _length(config: dict[str, Any], choice: str) -> tuple[int, int]:
    """(training examples, or characters of a text; updates). The data are read only if the words do not say it."""
    node, trainer = config["data"], config["trainer"]
    examples, updates = node.get("train_size"), config["max_steps"]
    if not examples and node.get("val_size") in range(1, IMAGES.get(choice, 0)):
        examples = IMAGES[choice] - node["val_size"]
    other_batches = ("samples_per_class", "tasks", "overfit_batches", "limit_train_batches")
    if examples and choice in IMAGES and not any(node.get(key) or trainer.get(key) for key in other_batches):
        steps = math.ceil(examples // config["batch_size"] / trainer.get("accumulate_grad_batches", 1))
        updates = config["max_epochs"] * steps if updates is None else updates
    if examples and updates is not None:
        return examples, updates
    with fast_imports():
        from normexp.config.targets import load_data
        from normexp.training.lightning import total_steps

    data = load_data(config)
    return examples or data.splits["train"].y.numel(), total_steps(config, data)
