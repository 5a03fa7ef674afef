"""Decode any number of PNGs and JPEGs into one file of pixels, on all cores.

Run as a program, this file decodes some images for another process. A separate program imports only Pillow and numpy,
so it starts in 0.2 s. It decodes on its own core: threads share Python's lock, and small images spend their time in it.
The script that trains needs no `if __name__ == "__main__":`.
"""

import io
import itertools
import pickle
import signal
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

MAX_PIXELS = 2**26  # 8192 x 8192; a larger image may be a decompression bomb, or takes a gigabyte
CHUNK, CHUNK_BYTES = 4096, 2**25  # most images, and bytes of them, that a program decodes


Image = tuple[str, bytes]  # name, encoded image


class Unreadable(Exception):
    """Name of an image or of a whole source, and the reason why it cannot be read."""

    def __init__(self, name: object, error: Exception | str) -> None:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        super().__init__(str(name), " ".join(reason.split()))


class DecoderFailed(Exception):
    """How a process that decodes images for this one ended."""


def decode(content: bytes, size: int, channels: int) -> np.ndarray:
    """Pixels of a PNG or JPEG, uint8 (channels, size, size), turned upright by EXIF and resized to a square."""
    import PIL.Image
    from PIL import ImageOps, UnidentifiedImageError

    with warnings.catch_warnings():  # Pillow only warns of the smaller bombs
        warnings.simplefilter("error", PIL.Image.DecompressionBombWarning)
        # Other formats would start other parsers, and EPS a program.
        try:
            image: PIL.Image.Image = PIL.Image.open(io.BytesIO(content), formats=("PNG", "JPEG"))
        except UnidentifiedImageError:  # whose words name our buffer, not the file
            raise ValueError("neither a PNG nor a JPEG") from None
    if image.width * image.height > MAX_PIXELS:
        raise ValueError(f"{image.width}x{image.height} pixels; at most {MAX_PIXELS:,} are decoded")
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):  # `convert` would cut them off at 255
        raise ValueError(f"more than 8 bits a pixel, mode {image.mode}")
    image = image.convert("L" if channels == 1 else "RGB")
    image = image.resize((size, size), PIL.Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(size, size, channels).transpose(2, 0, 1)


def decode_all(
    images: Iterable[Image], path: Path, size: int, channels: int, progress: Callable[[int], None]
) -> None:
    """Write images as rows of uint8 (channels, size, size) into the file `path`, in the given order.

    Args:
        images: names and encoded images. This process reads them one after the other. Others decode them, unless they
            are few.
        progress: called from any thread with the number of images decoded since its last call.

    Raises Unreadable for a bad image, DecoderFailed for a process that ended, OSError if the file cannot be written.
    """
    from normexp.machine import cores  # the program does without normexp

    path.touch()
    chunks = _chunks(images)
    ready = list(itertools.islice(chunks, 2))
    if len(ready) < 2:
        for some in ready:
            decode_into(path, 0, some, size, channels)
            progress(len(some))
        return

    # -P: a file in this folder must not hide a library of the same name.
    command = [sys.executable, "-P", __file__]

    def decode_elsewhere(first: int, some: list[Image]) -> None:
        arguments = pickle.dumps((path, first, some, size, channels))
        done = subprocess.run(command, input=arguments, capture_output=True, check=False)
        if done.returncode < 0:
            raise DecoderFailed(f"was killed by {signal.Signals(-done.returncode).name}")
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise DecoderFailed(": ".join([f"ended with exit code {done.returncode}", *last]))
        error = pickle.loads(done.stdout)  # only our program writes there
        if error is not None:
            raise error if isinstance(error, OSError) else Unreadable(*error)
        progress(len(some))

    workers, first = cores(), 0
    threads, waiting = ThreadPoolExecutor(workers), deque[Future[None]]()
    try:
        for some in itertools.chain(ready, chunks):
            waiting.append(threads.submit(decode_elsewhere, first, some))
            first += len(some)
            if len(waiting) > workers + 1:  # few encoded images wait in memory
                waiting.popleft().result()
        for future in waiting:
            future.result()
    finally:
        threads.shutdown(cancel_futures=True)


def _chunks(images: Iterable[Image]) -> Iterator[list[Image]]:
    some, size = [], 0
    for image in images:
        some.append(image)
        size += len(image[1])
        if len(some) == CHUNK or size >= CHUNK_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def decode_into(path: Path, first: int, images: list[Image], size: int, channels: int) -> None:
    """Decode images and write them into a file of pixels, from row `first` on."""
    with open(path, "r+b") as file:
        file.seek(first * channels * size**2)
        for name, content in images:
            try:
                pixels = decode(content, size, channels)
            except Exception as error:  # Pillow's decoders raise nearly any exception
                raise Unreadable(name, error) from None
            file.write(pixels.tobytes())


def main() -> None:
    """Decode what standard input asks for, and answer None or what went wrong."""
    answer: tuple[str, str] | OSError | None = None
    try:
        decode_into(*pickle.load(sys.stdin.buffer))
    except Unreadable as error:  # this class has another name in the other process
        answer = error.args
    except OSError as error:  # a full disk
        answer = error
    sys.stdout.buffer.write(pickle.dumps(answer))


if __name__ == "__main__":
    main()
