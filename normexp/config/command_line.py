"""What the words of a command say before Hydra reads them: whether they ask for many runs, and for which study."""

import hashlib
import re

NO_NAME = ("outputs", "threads", "allow_targets", "trainer.enable_progress_bar")  # where and how, not what


def is_sweep(arguments: list[str]) -> bool:
    """Whether the arguments ask for many runs; presets do so by themselves."""
    return bool({"-m", "--multirun"} & set(arguments)) or any(
        argument.startswith(("experiment=", "hydra.mode=")) for argument in arguments
    )


def study_of(arguments: list[str]) -> str | None:
    """The study of a sweep that names none, so that each kind of sweep has a folder of its own: what is fixed, what
    varies, and the hash of what is fixed. More seeds or norms go to the same study. None where a study is named, by
    `name=` or a preset, and where nothing varies."""
    words = [word for word in arguments if "=" in word and not word.startswith(("-", "hydra."))]
    if not is_sweep(arguments) or any(
        word.lstrip("+").startswith(("name=", "experiment=")) for word in words
    ):
        return None
    from hydra.core.override_parser.overrides_parser import OverridesParser

    try:
        overrides = OverridesParser.create().parse_overrides(words)
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


def quoted(value: str) -> str:
    """A value as Hydra's grammar reads it: text with other signs than these needs quotes."""
    if re.fullmatch(r"[\w.:/@%+-]+", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
