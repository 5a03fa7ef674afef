"""The choices of the yaml files, for `--help` and for hints. Imports nothing heavy."""

import difflib
import re
import textwrap
from collections.abc import Mapping

from normexp.config.folder import CONFIGS
from normexp.config.invocation import command


def choices(group: str) -> dict[str, str]:
    """The choices of a config group, with the first comment of each file."""
    found = {}
    for path in sorted((CONFIGS / group).glob("*.yaml")):
        lines = [
            line for line in path.read_text().splitlines() if line.startswith("#") and "@package" not in line
        ]
        found[path.stem] = lines[0].lstrip("# ").strip() if lines else ""
    return found


def groups() -> list[str]:
    """The config groups, in the order of `--help`."""
    first = [
        "model",
        "preset",
        "norm",
        "data",
        "recipe",
        "optimizer",
        "schedule",
        "trainer",
        "monitor",
        "experiment",
        "debug",
    ]
    return [name for name in first if (CONFIGS / name).is_dir()]


def keys() -> list[str]:
    """The keys of all choices: `lr`, `norm.eps`, ..."""
    found = set(re.findall(r"^(\w+):", (CONFIGS / "train.yaml").read_text(), re.M)) | set(groups())
    for group in set(groups()) - {"recipe", "preset"}:  # they set the keys of others
        for path in (CONFIGS / group).glob("*.yaml"):
            found |= {f"{group}.{key}" for key in re.findall(r"^ {0,2}([a-z]\w*):", path.read_text(), re.M)}
    return sorted(name for name in found if not name.endswith("defaults"))


def suggest(word: str, known: list[str]) -> str:
    """`did you mean ...? choose from: ...`"""
    folded = {re.sub(r"[^a-z0-9]", "", name): name for name in known}
    near = difflib.get_close_matches(re.sub(r"[^a-z0-9]", "", word.lower()), list(folded), n=1)
    hint = f"did you mean {folded[near[0]]}? " if near else ""
    return f"{hint}choose from: {', '.join(known)}"


EXAMPLES = {
    "norm=layernorm": "train, show the result, leave a run folder",
    "norm=batchnorm model=cnn batch_size=16 lr=0.05 seed=1": "",
    "norm=none monitor=full": "measure everything while it trains",
    "model=gpt data=python_docs max_steps=300": "",
    "model=resnet optimizer=sgd lr=0.1": "keep the model's recipe but for these",
    "-m norm=batchnorm,layernorm batch_size=2,32 seed=0,1,2": "a sweep: the product of all",
    "--cfg job": "print the whole configuration and stop",
}


def help_text(width: int | None = None) -> str:
    """The text of `--help`. Lines are broken at `width`, or not at all."""
    examples = {f"{command('train')} {arguments}": what for arguments, what in EXAMPLES.items()}
    examples["tensorboard --logdir outputs"] = "look at all runs"
    parts = [
        "normexp: train a network with a norm of your choice and look at what happens.",
        "",
        *columns(examples, width),
        "",
        "Choices (group=choice; options of a choice as group.key=value, e.g. model.depth=8;",
        f"`{command('train')} --help norm=batchnorm` explains a choice and its options):",
    ]
    for group in groups():
        parts += [f"\n{group}", *columns(choices(group), width)]
    rows = {f"{name}={default}" if default else name: text for name, default, text in key_rows()}
    parts += ["\nKeys (key=value):", *columns(rows, width)]
    return "\n".join(parts)


def key_rows() -> list[tuple[str, str, str]]:
    """(key, default, comment) of each key of the root. The default is empty if another choice sets it."""
    rows: list[tuple[str, str, str]] = []
    for line in (CONFIGS / "train.yaml").read_text().splitlines():
        if match := re.match(r"(\w+): (.*?)\s*(?:#\s*(.*))?$", line):
            default = "" if match[2] == "???" else match[2]
            rows.append((match[1], default, match[3] or ""))
        elif rows and (more := re.match(r"\s+#\s*(.*)$", line)):  # the comment continues
            name, default, text = rows.pop()
            rows.append((name, default, f"{text} {more[1]}"))
        elif line.startswith("hydra:"):
            break
    return rows


MOST = 50  # characters of the left column; the text of a longer name starts on the next line


def columns(rows: Mapping[str, str], width: int | None = None) -> list[str]:
    """Two columns: names on the left, their texts on the right, wrapped if there is a width."""
    left = max((len(name) for name in rows if len(name) <= MOST), default=0)
    lines = []
    for name, text in rows.items():
        room = max(width - left - 4, 24) if width else None
        first, *rest = (textwrap.wrap(text, room) if room else [text]) or [""]
        if len(name) > left and text:
            lines.append(f"  {name}")
            lines.append(f"  {'':<{left}}  {first}")
        else:
            lines.append(f"  {name:<{left}}  {first}".rstrip())
        lines += [f"  {'':<{left}}  {line}" for line in rest]
    return lines
