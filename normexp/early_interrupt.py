"""Ctrl-C during the import of libraries. Some catch KeyboardInterrupt and then fail with another error."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class EarlyInterrupt:
    """Whether Ctrl-C came.

    Attributes:
        came: True after it came.
    """

    def __init__(self) -> None:
        self.came = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        signal.default_int_handler(number, frame)


@contextlib.contextmanager
def noting_interrupts() -> Iterator[EarlyInterrupt]:
    """Inside this context, Ctrl-C raises KeyboardInterrupt as always and is remembered. A handler of others stays."""
    handler = signal.getsignal(signal.SIGINT)
    outer = getattr(handler, "__self__", None)
    early = outer if isinstance(outer, EarlyInterrupt) else EarlyInterrupt()
    plain = handler is signal.default_int_handler
    if not plain or threading.current_thread() is not threading.main_thread():
        yield early
        return
    own = early._note
    signal.signal(signal.SIGINT, own)
    try:
        yield early
    finally:
        if signal.getsignal(signal.SIGINT) == own:
            signal.signal(signal.SIGINT, signal.default_int_handler)
