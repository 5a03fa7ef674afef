"""Decode images to pixels. Run as a program, this file is a worker that decodes for another process.

A separate program imports only Pillow and numpy, so it starts in 0.2 s. It decodes on its own core: threads share
Python's lock, and small images spend their time in it. The script that trains needs no `if __name__ == "__main__":`.
"""

import io
import pickle
import signal
import sys
import warnings
from typing import BinaryIO

import numpy as np

MOST_PIXELS = 2**26  # 8192 x 8192; a larger image may be a decompression bomb, or takes a gigabyte


def decode(content: bytes, size: int, channels: int) -> np.ndarray:
    """Pixels of a PNG or JPEG, uint8 (channels, size, size), turned upright by EXIF and resized to a square."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    with warnings.catch_warnings():  # Pillow only warns of the smaller bombs
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        # Other formats would start other parsers, and EPS a program.
        try:
            image = Image.open(io.BytesIO(content), formats=("PNG", "JPEG"))
        except UnidentifiedImageError:  # whose words name our buffer, not the file
            raise ValueError("neither a PNG nor a JPEG") from None
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
    """Decode images and write them into a file of pixels, starting at row `first`.

    Returns None, or the number of an image that could not be decoded and the reason.
    """
    pixels = np.empty((len(contents), channels, size, size), np.uint8)
    for index, content in enumerate(contents):
        try:
            pixels[index] = decode(content, size, channels)
        except Exception as error:  # Pillow's decoders raise nearly any exception
            return index, " ".join(str(error).split()) or type(error).__name__
    file.seek(first * pixels[0].nbytes)
    file.write(pixels.data)
    file.flush()
    return None


def main(path: str, size: int, channels: int) -> None:
    """Answer each (first row, contents) from standard input. Only the parent writes there, so pickle is safe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and then closes our input
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
