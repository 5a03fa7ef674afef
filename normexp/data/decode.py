"""Encoded images to pixels; run as a program, a worker that does it for another process.

A program of its own, which imports Pillow and numpy alone: it starts in 0.2 s, decodes on a core of its own (threads
share Python's lock, and small images spend their time in it), and asks for no `if __name__ == "__main__":` in the
script that trains.
"""

import io
import pickle
import signal
import sys
import warnings
from typing import BinaryIO

import numpy as np

MOST_PIXELS = 2**26  # 8192 x 8192: larger ones are bombs, or would take a gigabyte each


def decode(content: bytes, size: int, channels: int) -> np.ndarray:
    """Pixels of a PNG or JPEG, uint8 (channels, size, size), upright as its EXIF says, resized whatever its shape."""
    from PIL import Image, ImageOps

    with warnings.catch_warnings():  # Pillow only warns of the smaller bombs
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        # any other format would start a parser of its own, EPS a program
        image = Image.open(io.BytesIO(content), formats=("PNG", "JPEG"))
    if image.width * image.height > MOST_PIXELS:
        raise ValueError(f"{image.width}x{image.height} pixels; at most {MOST_PIXELS:,} are decoded")
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith(("I", "F")):  # `convert` would cut them off at 255
        raise ValueError(f"more than 8 bits a pixel, mode {image.mode}")
    image = image.convert("L" if channels == 1 else "RGB")
    image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image).reshape(size, size, channels).transpose(2, 0, 1)


def decode_rows(
    file: BinaryIO, first: int, contents: list[bytes], size: int, channels: int
) -> tuple[int, str] | None:
    """Decode images and write them into a file of pixels, from row `first` on.

    Returns None, or which image could not be decoded and why.
    """
    pixels = np.empty((len(contents), channels, size, size), np.uint8)
    for index, content in enumerate(contents):
        try:
            pixels[index] = decode(content, size, channels)
        except Exception as error:  # Pillow's decoders raise nearly everything
            return index, " ".join(str(error).split()) or type(error).__name__
    file.seek(first * pixels[0].nbytes)
    file.write(pixels.data)
    file.flush()
    return None


def main(path: str, size: int, channels: int) -> None:
    """Answer each (first row, contents) on the standard input until it ends; the parent wrote it, so pickle is safe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which then closes our input
    source, answers = sys.stdin.buffer, sys.stdout.buffer
    with open(path, "r+b") as file:
        while source.peek(1):
            first, contents = pickle.load(source)
            try:
                answer = decode_rows(file, first, contents, size, channels)
            except OSError as error:  # a full disk
                answer = error
            pickle.dump(answer, answers)
            answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
