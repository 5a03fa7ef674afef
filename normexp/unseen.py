"""Work goes on where nobody can read what it prints: a pipe was closed, or the disk with the log is full."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class _Screen:
    """A stream. Text that cannot be written is lost; the error stream says so once."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._no_error():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._no_error():
            self._stream.flush()

    @contextlib.contextmanager
    def _no_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # From now on everything goes nowhere, also what the stream still holds when the process ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            with contextlib.suppress(OSError):
                why = error.strerror or error
                print(f"nothing can be printed any more ({why}); the work goes on", file=sys.stderr)


def screen() -> TextIO:
    """Where to print what is not the result of the work."""
    return sys.stdout and _Screen(sys.stdout)  # type: ignore[return-value]  # None where it was closed at the start


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Inside this context, `print` never ends the work."""
    with contextlib.redirect_stdout(screen()):
        yield
