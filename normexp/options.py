"""Options of commands that do not go through Hydra, written key=value as everywhere in the project."""

from collections.abc import Mapping


def read_options(arguments: list[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The defaults with what the arguments set; raises ValueError for anything but key=value with a known key."""
    options = dict(defaults)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key not in options or not equals or not value:
            raise ValueError(
                f"{argument}: write key=value with a key of {', '.join(options)}; --help explains"
            )
        options[key] = value
    return options
