"""Decode any number of encoded images into one file of pixels, on all cores."""

import itertools
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from normexp.cores import cores
from normexp.data import decode

CHUNK, CHUNK_BYTES = 64, 2**22  # most images, and bytes of them, that a worker gets at once
PIXEL_BYTES = 2**24  # most bytes of a chunk's decoded images
FEW = 16  # up to so many chunks are decoded here, faster than a worker starts

Chunk = tuple[int, list[bytes]]  # number of the first image, encoded images


class Undecodable(Exception):
    """Number of an image, and the reason why it cannot be decoded."""


def decode_all(
    contents: Iterable[bytes], path: Path, size: int, channels: int, progress: Callable[[int], None]
) -> None:
    """Write images as rows of uint8 (channels, size, size) into the file `path`, in the given order.

    Args:
        contents: encoded images. This process reads them one after the other; if there are many, others decode them.
        progress: called from any thread with the number of images decoded since its last call.

    Raises Undecodable for a bad image, OSError if the file cannot be written.
    """
    chunks = _chunks(contents, max(1, min(CHUNK, PIXEL_BYTES // (channels * size**2))))
    few = list(itertools.islice(chunks, FEW))
    more = list(itertools.islice(chunks, 1))
    with open(path, "wb") as file:
        if not more:
            for first, some in few:
                _check(first, decode.decode_rows(file, first, some, size, channels))
                progress(len(some))
            return
    pool = _Pool([str(path), str(size), str(channels)], progress)
    try:
        for chunk in itertools.chain(few, more, chunks):
            pool.put(chunk)
        pool.finish()
    finally:
        pool.close()


def _chunks(contents: Iterable[bytes], most: int) -> Iterator[Chunk]:
    first, some, size = 0, [], 0
    for content in contents:
        some.append(content)
        size += len(content)
        if len(some) == most or size >= CHUNK_BYTES:
            yield first, some
            first, some, size = first + len(some), [], 0
    if some:
        yield first, some


class _Pool:
    """Worker processes, each fed by a thread that waits for its answers."""

    def __init__(self, arguments: list[str], progress: Callable[[int], None]) -> None:
        self.progress = progress
        self.errors: list[Exception] = []
        self.waiting: queue.Queue[Chunk | None] = queue.Queue(maxsize=2 * cores())
        # -P: a file in this folder must not hide a library of the same name.
        command = [sys.executable, "-P", decode.__file__, *arguments]
        self.workers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(cores())
        ]
        self.threads = [threading.Thread(target=self._feed, args=(w,), daemon=True) for w in self.workers]
        for thread in self.threads:
            thread.start()

    def put(self, chunk: Chunk | None) -> None:
        self.waiting.put(chunk)  # a failed thread still takes chunks, so this cannot wait forever
        if self.errors:
            raise self.errors[0]

    def finish(self) -> None:
        for _ in self.threads:
            self.waiting.put(None)
        for thread in self.threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def close(self) -> None:
        """End all workers, even in the middle of their work."""
        for worker in self.workers:
            worker.kill()
        while any(thread.is_alive() for thread in self.threads):
            try:
                self.waiting.put(None, timeout=0.1)
            except queue.Full:
                continue
        for worker in self.workers:
            worker.communicate()

    def _feed(self, worker: subprocess.Popen) -> None:
        while (chunk := self.waiting.get()) is not None:
            if self.errors:
                continue
            try:
                pickle.dump(chunk, worker.stdin)
                worker.stdin.flush()
                _check(chunk[0], pickle.load(worker.stdout))
                self.progress(len(chunk[1]))
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                self.errors.append(OSError(f"a process that decodes images ended with {worker.wait()}"))
            except Exception as error:
                self.errors.append(error)


def _check(first: int, answer: tuple[int, str] | OSError | None) -> None:
    if isinstance(answer, OSError):
        raise answer
    if answer is not None:
        index, reason = answer
        raise Undecodable(first + index, reason)
