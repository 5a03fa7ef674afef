"""The form in which the images of a split are kept: numbers, bytes on the device, or bytes streamed to it."""

import torch
from torch import Tensor

from normexp.data.pixel_rows import PixelRows
from normexp.data.room import fits, kept_as_numbers
from normexp.data.rows import Rows
from normexp.data.scaling import Scaling
from normexp.data.stored_images import Images
from normexp.data.streamed_rows import StreamedRows


def rows_of(images: Images, place: Tensor, scaling: Scaling) -> PixelRows:
    """The images `place` as bytes on the CPU. They are read ahead if their file may be larger than memory."""
    y = images.labels[place]
    if images.file is not None and images.file.large:
        return StreamedRows(images.pixels, place, y, scaling, torch.device("cpu"), images.file)
    return PixelRows(images.pixels, place, y, scaling)


def on_device(rows: PixelRows, device: torch.device) -> Rows:
    """The same rows for a device: numbers if they take little room there, else bytes if they fit, else streamed."""
    if kept_as_numbers(4 * rows.nbytes, device):
        here = rows if device == rows.device else rows.moved(device)
        return Rows(here.x, here.y)
    if device == rows.device:
        return rows
    if fits(rows.nbytes, device):
        return rows.moved(device)
    file = rows.file if isinstance(rows, StreamedRows) else None
    return StreamedRows(rows.pixels, rows.place, rows.y, rows.scaling, device, file)
