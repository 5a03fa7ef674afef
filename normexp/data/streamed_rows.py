"""Images that do not fit on the device: a thread reads some batches ahead."""

import queue
import threading
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from normexp.data.mapped_file import MappedFile
from normexp.data.pixel_rows import PixelRows
from normexp.data.rows import Batch, Chosen
from normexp.data.scaling import Scaling

AHEAD = 2**25  # most bytes that lie ready, at least one batch
ASKED = 2**27  # most bytes that the disk is asked for, at least one batch


class StreamedRows(PixelRows):
    """Bytes that the CPU reads ahead. A GPU copies them from pinned memory while it computes, and scales them itself.

    Args:
        pixels, place, y: on the CPU.
        device: of the batches.
        file: the file that the pixels are mapped from; None if they are in memory.
    """

    def __init__(
        self,
        pixels: Tensor,
        place: Tensor,
        y: Tensor,
        scaling: Scaling,
        device: torch.device,
        file: MappedFile | None = None,
    ) -> None:
        super().__init__(pixels, place, y, scaling.to(device))
        self.wanted, self.file = device, file

    @property
    def device(self) -> torch.device:
        return self.wanted

    def take(self, chosen: Chosen) -> Batch:
        return self._finished(self.bytes_of(chosen))

    def batches(self, chosen: Iterable[Chosen]) -> Iterator[Batch]:
        wanted = list(chosen)
        ready: queue.Queue[Batch | BaseException | None] = queue.Queue(self._count(AHEAD, wanted))
        stopped = threading.Event()

        def put(item: Batch | BaseException | None) -> None:
            while not stopped.is_set():
                try:
                    return ready.put(item, timeout=0.1)
                except queue.Full:
                    continue

        def read() -> None:
            try:
                for rows in self._asked_for(wanted):
                    if stopped.is_set():
                        return
                    batch = self.bytes_of(rows)
                    put(tuple(part.pin_memory() for part in batch) if self.wanted.type == "cuda" else batch)
                put(None)
            except BaseException as error:  # raised again where the batch is awaited
                put(error)

        thread = threading.Thread(target=read, name="rows ahead", daemon=True)
        thread.start()
        try:
            while (batch := ready.get()) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                yield self._finished(batch)
        finally:  # also when training stops in the middle of an epoch
            stopped.set()
            thread.join()

    def _finished(self, batch: Batch) -> Batch:
        pixels, y = (part.to(self.wanted, non_blocking=True) for part in batch)
        return self.scaling(pixels), y

    def _asked_for(self, wanted: list[Chosen]) -> Iterator[Chosen]:
        """Yield the same row numbers, some time after asking the disk for these rows."""
        ahead = self._count(ASKED, wanted)
        for rows in wanted[:ahead]:
            self._ask_for(rows)
        for number, rows in enumerate(wanted, ahead):
            if number < len(wanted):
                self._ask_for(wanted[number])
            yield rows

    def _count(self, nbytes: int, wanted: list[Chosen]) -> int:
        """Number of batches that `nbytes` hold."""
        batch = len(self.place[wanted[0]]) * self.pixels[0].numel() if wanted else 1
        return max(1, nbytes // max(1, batch))

    def _ask_for(self, rows: Chosen) -> None:
        if self.file is not None:
            self.file.ask_for(self.place[rows].tolist())
