"""What the words of a command say before Hydra composes them: whether they ask for many runs, for which study, and for
choices that are no names, or several where a run has one."""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from normexp.config.folder import config_file
from normexp.config.options import GROUPS, choices, suggest

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

NO_NAME = ("outputs", "threads", "allow_targets", "trainer.enable_progress_bar")  # where and how, not what


def is_sweep(words: Sequence[str]) -> bool:
    """Whether words ask for many runs without `-m`: presets do so by themselves."""
    return "hydra.mode=RUN" not in words and any(word.startswith("experiment=") for word in words)


def study_of(words: Sequence[str]) -> str | None:
    """The study of a sweep that names none, so that each kind of sweep has a folder of its own: what is fixed, what
    varies, and the hash of what is fixed. More seeds or norms go to the same study. None where a study is named, by
    `name=` or a preset, and where nothing varies."""
    if any(word.lstrip("+").startswith(("name=", "experiment=")) for word in words):
        return None
    from hydra.core.override_parser.overrides_parser import OverridesParser

    try:
        own = [word for word in words if "hydra." not in word]
        overrides = OverridesParser.create().parse_overrides(own)
    except Exception:  # Hydra says what is wrong with it
        return None
    swept = [str(item.key_or_group).rpartition(".")[2] for item in overrides if item.is_sweep_override()]
    fixed = [item for item in overrides if not item.is_sweep_override() and item.key_or_group not in NO_NAME]
    if not swept:
        return None
    chosen = [str(item.value()) for item in fixed if item.key_or_group in ("model", "data")]
    axes = [key for key in swept if key != "seed"] or swept
    lines = sorted(str(item.input_line) for item in fixed)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return re.sub(r"\W+", "_", "_".join([*chosen, *axes])) + (f"-{digest[:4]}" if fixed else "")


OPTIONAL = ("preset", "experiment", "debug")
ONE = ("model", "norm", "data", "optimizer", "schedule")  # groups of which a run has one choice

REQUIRED = (*ONE, "trainer", "monitor", "recipe")


def check_choices(overrides: Iterable["Override"]) -> None:
    """Raise ValueError with one line for a choice that is no name or list of names, for example `data=[0]`, where Hydra
    would end in a TypeError of its own; and for two of which a run has one."""
    for override in overrides:
        key = str(override.key_or_group)
        if override.is_delete() and key in REQUIRED:
            raise ValueError(f"{override.input_line}: a run needs one; write {key}=NAME instead")
        if key not in GROUPS or override.is_delete() or override.is_sweep_override():
            continue
        value: Any = override.value()
        names = value if isinstance(value, list) else [value]
        # Hydra would pass over a name of these that it does not find.
        if key in OPTIONAL and isinstance(value, str) and config_file(key, value) is None:
            raise ValueError(f"{key}={value}: no such choice; {suggest(value, list(choices(key)))}")
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"{override.input_line}: choices are names; write {key}=NAME")
        if key in ONE and len(names) > 1:  # Hydra would merge them, and call it the last one
            raise ValueError(
                f"{override.input_line}: a run has one {key}; a sweep has several: -m {key}={','.join(names)}"
            )


def quoted(value: str) -> str:
    """A value as Hydra's grammar reads it: text with other signs than these needs quotes."""
    if re.fullmatch(r"[\w.:/@%+-]+", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
