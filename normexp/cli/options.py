"""Options, key=value, of commands that do not use Hydra."""

from collections.abc import Mapping


def read_options(arguments: list[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The defaults, changed by the arguments. Raises ValueError for anything but key=value with a known key."""
    options = dict(defaults)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key not in options or not equals or not value:
            raise ValueError(
                f"{argument}: write key=value with a key of {', '.join(options)}; --help explains"
            )
        options[key] = value
    return options
