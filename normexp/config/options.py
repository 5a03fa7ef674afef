"""Choices and keys with their comments in the yaml files, and a value as a word. Imports nothing heavy."""

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from normexp.config.folder import CONFIGS, brought, load_yaml, own_folder

GROUPS = (
    "model", "preset", "norm", "data", "recipe", "optimizer", "schedule", "trainer", "monitor", "experiment", "debug",
)  # fmt: skip

TWICE = "the key stands there twice; write it once, several values with commas"

# Arguments of Lightning's trainer -> the key of normexp that sets them
OF_TRAINER = {
    **{key: key for key in ("max_epochs", "max_steps", "log_every_n_steps", "logger")},
    "val_check_interval": "val_every_n_steps", "check_val_every_n_epoch": "val_every_n_steps",
    "default_root_dir": "run_dir", "callbacks": "monitor", "fast_dev_run": "debug",
    "limit_train_batches": "data.train_size", "overfit_batches": "data.train_size",
}  # fmt: skip


def choices(group: str) -> dict[str, str]:
    """The choices of a config group, with the first comment of each file; and those of the folder of `--config-dir`."""
    paths = sorted((CONFIGS / group).glob("*.yaml"))
    comments = {path.stem: re.search(r"^# (?!@package)(.*)", path.read_text(), re.M) for path in paths}
    offered = {name: comment[1] if comment else "" for name, comment in comments.items()}
    folder = own_folder()
    of_user = sorted(path.stem for path in (folder / group).glob("*.yaml")) if folder else []
    return dict.fromkeys(of_user, "of your own") | offered


def no_such_choice(group: str, name: str) -> str:
    """What is wrong with a choice that is not there, and what to write."""
    elsewhere = "" if own_folder() else "; for one of your own add --config-dir FOLDER"
    return f"no such choice; {suggest(name, [*choices(group), *installed(group)])}{elsewhere}"


def installed(group: str) -> dict[str, str]:
    """The choices that installed packages bring, with how to allow each; their files are not read."""
    named = {name: packages[0] for (kind, name), packages in sorted(brought().items()) if kind == group}
    return {name: f"of an installed package; add allow_targets=[{p}]" for name, p in named.items()}


def suggest(word: str, names: list[str]) -> str:
    """`did you mean ...? choose from: ...`, at most eight names; `--help` lists all."""
    if not names:
        return "it takes none"
    folded = {re.sub(r"[^a-z0-9]", "", name): name for name in names}
    near = difflib.get_close_matches(re.sub(r"[^a-z0-9]", "", word.lower()), list(folded), n=1)
    hint = f"did you mean {folded[near[0]]}? " if near else ""
    return f"{hint}choose from: {', '.join(names[:8])}" + (", ..." if len(names) > 8 else "")


# model=HUB:NAME -> the words that it stands for
HUBS = {
    "torchvision": ("model=torchvision", "model.name={}"),
    "timm": ("model=module", "model.path=normexp.models.hubs.Timm", "+model.module.name={}"),
    "hf": (
        "model=module", "model.path=normexp.models.hubs.Transformers", "model.accepts=text", "+model.module.name={}",
    ),
}  # fmt: skip


def key_of(word: str) -> str:
    """What a word sets: batch_size of ++batch_size=8."""
    return word.lstrip("+~").partition("=")[0]


def with_several_values(overrides: Iterable[Any]) -> list[str]:
    """The words that give a key several values, `lr=0.1,0.3`; a list, a mapping or a quoted text is one value."""
    return [str(word) for word in overrides if re.search(r"=[^\[({'\"]*,", str(word))]


def last_of_each(overrides: Iterable[str]) -> list[str]:
    """The words that no later one of their key replaces. Both of `~key +key=VALUE` stay."""
    return list({(word[:1] == "~", key_of(word)): word for word in overrides}.values())


def require_once(arguments: Iterable[str]) -> None:
    """Raise ValueError with one line for two words of one key, of which Hydra would take the last; but `~key` before
    `+key=VALUE`, which puts another mapping in place of one."""
    seen: dict[str, str] = {}
    for word in arguments:
        if "=" not in word and not word.startswith(("~", "--")):
            continue
        key = key_of(word)
        if (before := seen.get(key)) and not (before[0] == "~" and word[0] == "+"):
            raise ValueError(f"{before} {word}: {TWICE}")
        seen[key] = word


def expanded(overrides: Iterable[str]) -> list[str]:
    """Words with `model=timm:NAME` as what it stands for. That comes first, so that the user's words can change it."""
    first, rest = [], []
    for word in overrides:
        plain = re.sub(r"\\(.)", r"\1", word)  # Hydra escapes signs in the cells of a sweep
        found = re.fullmatch(rf"model=(['\"]?)({'|'.join(HUBS)}):(.+)\1", plain)
        swept = found and re.search(r",(?![^(]*\))", found[3])  # its cells come here one by one
        if found and not swept:
            first += [option.format(quoted(found[3])) for option in HUBS[found[2]]]
        else:
            rest.append(word)
    return first + rest


def key_rows() -> dict[str, tuple[str, str]]:
    """Each key of the root -> (default, comment). The default is empty if another choice sets it."""
    text = re.sub(r"\n +# *", " ", (CONFIGS / "train.yaml").read_text())  # a comment may go on below
    rows = re.findall(r"^([a-z]\w*): +([^#\n]*?) +# (.*)", text, re.M)
    return {name: (value.replace("???", ""), comment) for name, value, comment in rows}


def keys() -> list[str]:
    """The keys of all choices: `lr`, `norm.eps`, ..."""
    names = {*key_rows(), *GROUPS}
    for group in set(GROUPS) - {"recipe", "preset"}:  # they set the keys of others
        for path in (CONFIGS / group).glob("*.yaml"):
            text = path.read_text()
            names |= set(_keys_of(load_yaml(text) or {}, "" if "@package _global_" in text else f"{group}."))
    return sorted(names)


def _keys_of(node: dict[str, Any], prefix: str) -> Iterator[str]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _keys_of(value, f"{prefix}{key}.")
        elif not key.startswith("_") and key != "defaults":
            yield prefix + key


def quoted(value: str) -> str:
    """A value as Hydra's grammar reads it: text with other signs than these needs quotes."""
    if re.fullmatch(r"[\w.:/@%+-]+", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
