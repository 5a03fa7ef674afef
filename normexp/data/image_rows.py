"""In which form the images of a split are kept."""

import torch
from torch import Tensor

from normexp.data.pixel_rows import PixelRows
from normexp.data.room import SMALL, fits
from normexp.data.rows import Rows
from normexp.data.scaling import Scaling
from normexp.data.stored_images import Images
from normexp.data.streamed_rows import StreamedRows


def rows_of(images: Images, place: Tensor, scaling: Scaling) -> Rows:
    """The images `place`, on the CPU: as numbers where these take little memory, else as bytes."""
    y = images.labels[place]
    if 4 * len(place) * images.pixels[0].numel() <= SMALL:
        return Rows(scaling(images.pixels.index_select(0, place)), y)
    if images.file is not None and images.file.large:
        return StreamedRows(images.pixels, place, y, scaling, torch.device("cpu"), images.file)
    return PixelRows(images.pixels, place, y, scaling)


def on_device(rows: Rows, device: torch.device) -> Rows:
    """The same rows for a device: on it, where they fit, else streamed to it."""
    if device == rows.device:
        return rows
    if not isinstance(rows, PixelRows):
        return rows.to(device)
    if fits(rows.nbytes, device):
        return rows.moved(device)
    file = rows.file if isinstance(rows, StreamedRows) else None
    return StreamedRows(rows.pixels, rows.place, rows.y, rows.scaling, device, file)
