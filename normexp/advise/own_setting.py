"""The user's own setting in the words of a bank's labels, from the words of `normexp train`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from normexp.claims.spec.bank import NAMES, label
from normexp.config.compose import compose
from normexp.config.process import fast_imports
from normexp.config.references import plain_values

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
    examples, updates = _length(config)
    numbers |= {"batch size": config["batch_size"], "examples": examples, "updates": updates}
    return found | {key: str(value) for key, value in numbers.items() if value}


def _data(config: dict[str, Any], choice: str) -> str:
    """The name of the data; of a text its file's, without ends."""
    if choice == "text_file":
        return Path(str(config["data"]["path"])).name.partition(".")[0]
    return label("data", choice)


def _length(config: dict[str, Any]) -> tuple[int, int]:
    """(training examples, or characters of a text; updates). The data are read only if the words do not say it."""
    examples, updates = config["data"].get("train_size"), config["max_steps"]
    if examples and updates:
        return examples, updates
    with fast_imports():
        from normexp.config.construct import load_data
        from normexp.training.length import total_steps

    data = load_data(config, None)
    return examples or data.splits["train"].y.numel(), total_steps(config, data)
