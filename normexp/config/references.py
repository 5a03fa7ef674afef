"""The plain values of a configuration: what its references `${...}` stand for, after a check of how far they expand.

A configuration may be untrusted, and references to references multiply: thirty lines can stand for a text of gigabytes.
"""

import re
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

INNERMOST = re.compile(r"\$\{([^${}]*)\}")
MOST = 1_000_000  # characters and values of a configuration; one of normexp has some thousands
MOST_TURNS = 20
# These build nodes from text or from other nodes, and their size cannot be seen here.
REFUSED = ("oc.create", "oc.dict.keys", "oc.dict.values")


def plain_values(cfg: DictConfig) -> dict[str, Any]:
    """The values of a configuration, with interpolations resolved. They are not validated. Raises ValueError with one
    line for one that cannot be resolved."""
    check_interpolations(cfg)
    try:
        return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True))
    except MissingMandatoryValue as error:
        raise ValueError(f"{error.full_key}: is missing; add {error.full_key}=VALUE") from None
    except OmegaConfBaseException as error:
        raise ValueError(str(error).split("\n")[0]) from None


def check_interpolations(cfg: Any) -> None:
    """Raise ValueError with one line if a configuration would grow too large once it is resolved, refers to itself, or
    has references that cannot be followed."""
    config = cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=False))
    _Sizes(config).of((), config)


class _Sizes:
    def __init__(self, config: dict[str, Any]):
        self.config = config
        self.known: dict[tuple[str, ...], int] = {}  # 0 while it is counted

    def of(self, path: tuple[str, ...], value: Any) -> int:
        """Number of characters and values at a path after everything is resolved."""
        if self.known.get(path) == 0:
            raise ValueError(f"{'.'.join(path)}: refers to itself; write its value")
        if path not in self.known:
            self.known[path] = 0
            self.known[path] = size = 1 + self._inside(path, value)
            if size > MOST:
                raise ValueError(
                    f"{'.'.join(path) or 'configuration'}: its references expand to over {MOST:,} values"
                )
        return self.known[path]

    def _inside(self, path: tuple[str, ...], value: Any) -> int:
        if isinstance(value, dict):
            return sum(self.of((*path, str(key)), item) for key, item in value.items())
        if isinstance(value, list):
            return sum(self.of((*path, str(index)), item) for index, item in enumerate(value))
        return self._text(path, value) if isinstance(value, str) else 1

    def _text(self, path: tuple[str, ...], text: str) -> int:
        size, rest, inner = len(text), text, False
        while found := INNERMOST.search(rest):
            resolver, colon, _ = found[1].partition(":")
            if colon and resolver.strip() in REFUSED:
                raise ValueError(f"{'.'.join(path)}={text}: {resolver} is not read; write the value")
            if not colon and inner and "\0" in found[1]:
                raise ValueError(f"{'.'.join(path)}={text}: a reference inside a reference is not read")
            key = found[1].split(",")[0].partition(":")[2] if resolver == "oc.select" else found[1]
            size += self._reference(path, key) if not colon or resolver == "oc.select" else 0
            # \0 marks a resolved part.
            rest, inner = f"{rest[: found.start()]}\0{rest[found.end() :]}", True
        return size

    def _reference(self, path: tuple[str, ...], key: str) -> int:
        """Size of a reference: `a.b` starts at the root, `.b` at the node around it, `..b` one node higher."""
        up = len(key) - len(key.lstrip("."))
        parts = [part for part in re.split(r"[.\[\]]+", key.strip()) if part]
        return self._follow((*path[: max(0, len(path) - up)], *parts) if up else tuple(parts))

    def _follow(self, target: tuple[str, ...], turns: int = 0) -> int:
        value: Any = self.config
        for place, part in enumerate(target):
            if isinstance(value, dict):
                value = next((item for name, item in value.items() if str(name) == part), None)
            elif isinstance(value, list):
                value = value[int(part)] if part.isdecimal() and int(part) < len(value) else None
            elif isinstance(value, str) and "${" in value:  # a reference on the way: follow it
                whole = INNERMOST.fullmatch(value)
                if whole is None or ":" in whole[1] or whole[1].startswith(".") or turns > MOST_TURNS:
                    raise ValueError(f"{'.'.join(target)}: a reference through {value} is not read")
                parts = [name for name in re.split(r"[.\[\]]+", whole[1].strip()) if name]
                return self._follow((*parts, *target[place:]), turns + 1)
            else:
                return 1  # no such key; OmegaConf reports it
        return self.of(target, value)
