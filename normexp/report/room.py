"""The room for a figure: the width of a page, or of a phone."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple


class Room(NamedTuple):
    """`width`: inches, so that text has one size on the page; `columns`: small panels side by side."""

    width: float
    columns: int


WIDE, NARROW = Room(9.3, 4), Room(4.5, 2)
_room: ContextVar[Room] = ContextVar("room", default=WIDE)


def room() -> Room:
    """The room of the figures that are drawn now."""
    return _room.get()


@contextlib.contextmanager
def narrow() -> Iterator[None]:
    """Inside this context, figures are drawn for a narrow screen."""
    token = _room.set(NARROW)
    try:
        yield
    finally:
        _room.reset(token)
