"""Choices, keys and options, as the yaml files say them: what there is, with its comment. Imports nothing heavy."""

import difflib
import re

from normexp.config.folder import CONFIGS, brought, config_file, load_yaml

GROUPS = (
    "model", "preset", "norm", "data", "recipe", "optimizer", "schedule", "trainer", "monitor", "experiment", "debug",
)  # fmt: skip


def choices(group: str) -> dict[str, str]:
    """The choices of a config group, with the first comment of each file."""
    paths = sorted((CONFIGS / group).glob("*.yaml"))
    return {path.stem: next(iter(comments_above(path.read_text())), "") for path in paths}


def installed(group: str) -> dict[str, str]:
    """The choices that installed packages bring, with how to allow each; their files are not read."""
    named = {name: packages[0] for (own, name), packages in sorted(brought().items()) if own == group}
    return {name: f"of an installed package; add allow_targets=[{own}]" for name, own in named.items()}


def comments_above(text: str) -> list[str]:
    """The lines of comments at the margin of a yaml file."""
    lines = [line for line in text.splitlines() if line.startswith("#") and "@package" not in line]
    return [line.lstrip("# ").strip() for line in lines]


def suggest(word: str, names: list[str]) -> str:
    """`did you mean ...? choose from: ...`, at most eight names; `--help` lists all."""
    folded = {re.sub(r"[^a-z0-9]", "", name): name for name in names}
    near = difflib.get_close_matches(re.sub(r"[^a-z0-9]", "", word.lower()), list(folded), n=1)
    hint = f"did you mean {folded[near[0]]}? " if near else ""
    return f"{hint}choose from: {', '.join(names[:8])}" + (", ..." if len(names) > 8 else "")


def options_in(text: str) -> dict[str, tuple[str, str]]:
    """Each key of a yaml file, inner ones with dots -> (its value as written, its comment). A comment may go on in the
    lines below. Hydra's names, which begin with an underscore, and its defaults are left out."""
    options: dict[str, tuple[str, str]] = {}
    above: list[tuple[int, str]] = []  # indentation and name of the keys around
    for line in text.splitlines():
        if match := re.match(r"( *)([\w.]+):(?: +([^#\s].*?))?(?: +# *(.*))?$", line):
            above = [(place, key) for place, key in above if place < len(match[1])]
            options.pop(".".join(key for _, key in above), None)  # it has keys and no value
            above.append((len(match[1]), match[2]))
            last = ".".join(key for _, key in above)
            options[last] = (match[3] or "", match[4] or "")
        elif (item := re.match(r" +- (.*)", line)) and options:
            value = options[last][0].strip("[]")
            options[last] = (f"[{f'{value}, ' * bool(value)}{item[1]}]", options[last][1])
        elif (more := re.match(r" +# *(.*)", line)) and options and options[last][1]:
            options[last] = (options[last][0], f"{options[last][1]} {more[1]}")
    return {name: option for name, option in options.items() if not re.search(r"(^|\.)_|^defaults$", name)}


def key_rows() -> dict[str, tuple[str, str]]:
    """Each key of the root -> (default, comment). The default is empty if another choice sets it."""
    rows = options_in((CONFIGS / "train.yaml").read_text())
    return {name: (value.replace("???", ""), text) for name, (value, text) in rows.items() if "." not in name}


def all_options(group: str, choice: str) -> dict[str, tuple[str, str]]:
    """The options of a choice, `norm.eps` -> (its value, its comment), with those of the choices that it builds on."""
    text = text_of(group, choice)
    options: dict[str, tuple[str, str]] = {}
    for parent in (load_yaml(text) or {}).get("defaults", ()):
        if isinstance(parent, str) and parent != "_self_":
            options |= all_options(group, parent)
    prefix = "" if "@package _global_" in text else f"{group}."
    for name, (value, comment) in options_in(text).items():
        options[prefix + name] = (value, comment or options.get(prefix + name, ("", ""))[1])
    roots = {name: value for name, (value, _) in (key_rows() | options).items() if "." not in name and value}
    return {name: (roots.get(value[2:-1], value), comment) for name, (value, comment) in options.items()}


def text_of(group: str, choice: str) -> str:
    """The yaml file of a choice, of this project or brought by a package."""
    return (config_file(group, choice) or CONFIGS / group / f"{choice}.yaml").read_text()


def keys() -> list[str]:
    """The keys of all choices: `lr`, `norm.eps`, ..."""
    names = {*key_rows(), *GROUPS}
    for group in set(GROUPS) - {"recipe", "preset"}:  # they set the keys of others
        names.update(name for choice in choices(group) for name in all_options(group, choice))
    return sorted(names)
