"""`--help`, and `--help norm=batchnorm`: choices, keys, and the file of a choice with the docstrings of its class."""

import inspect
import pkgutil
import re
from collections.abc import Mapping

from normexp.config.folder import config_file
from normexp.config.options import GROUPS, choices, installed, key_rows, no_such_choice, suggest
from normexp.config.process import command

EXAMPLES = {
    "norm=layernorm": "train, show the result, leave a run folder",
    "norm=batchnorm model=cnn batch_size=16 lr=0.05 seed=1": "",
    "norm=none monitor=full": "measure everything while it trains",
    "model=gpt data=python_docs max_steps=300": "",
    "model=resnet optimizer=sgd lr=0.1": "keep the model's recipe but for these",
    "-m norm=batchnorm,layernorm batch_size=2,32 seed=0,1,2": "a sweep; for a fair comparison: normexp compare",
    "--cfg job": "print the whole configuration and stop",
}


def columns(rows: Mapping[str, str]) -> list[str]:
    """Two columns: names on the left, their texts on the right."""
    left = min(max(map(len, rows), default=0), 50)
    return [f"  {name:<{left}}  {text}".rstrip() for name, text in rows.items()]


def help_text() -> str:
    """The text of `--help`."""
    examples = {f"{command('train')} {arguments}": what for arguments, what in EXAMPLES.items()}
    examples["tensorboard --logdir outputs"] = "look at all runs"
    parts = [
        "normexp: train a network with a norm of your choice and look at what happens.",
        "",
        *columns(examples),
        "",
        "Choices (group=choice; options of a choice as group.key=value, e.g. model.depth=8;",
        f"`{command('train')} --help norm=batchnorm` explains a choice and its options):",
    ]
    for group in GROUPS:
        parts += [f"\n{group}", *columns(choices(group) | installed(group))]
    rows = {f"{name}={value}" if value else name: text for name, (value, text) in key_rows().items()}
    return "\n".join([*parts, "\nKeys (key=value):", *columns(rows)])


def explain(word: str) -> str:
    """The help of `norm=batchnorm`, `norm` or `lr`. Raises ValueError for an unknown word."""
    group, _, choice = word.partition("=")
    if group not in GROUPS:
        roots = key_rows()
        if group not in roots:
            raise ValueError(f"--help {word}: no such group or key; {suggest(group, [*GROUPS, *roots])}")
        default, text = roots[group]
        return f"{group}={default or 'VALUE'}\n\n{text}"
    offered = choices(group) | installed(group)
    if not choice:
        return "\n".join([f"{group}: choose one, {command('train')} {group}=NAME", "", *columns(offered)])
    if choice not in offered:
        raise ValueError(f"--help {word}: {no_such_choice(group, choice)}")
    if (path := config_file(group, choice)) is None:
        return f"{word}\n\n{offered[choice]}"
    text = path.read_text()
    target = re.search(r"^ *_target_: *(normexp\.\S+)", text, re.M)
    bases = pkgutil.resolve_name(target[1]).__mro__ if target else ()
    documented = [base for base in bases if base.__module__.startswith("normexp.") and base.__doc__]
    return "\n\n".join([word, text.rstrip(), *(inspect.cleandoc(base.__doc__ or "") for base in documented)])
