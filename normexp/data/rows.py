"""The samples of a split, their order, and batches of them on their way into the network.

Which sample lies in which split and batch is a pure function of seed and epoch, equal on every device. Splits have a
seed of their own, so the run's seed does not change the validation set. Samples lie in memory, as bytes on the device,
or are read ahead from a mapped file.
"""

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from normexp.data.cache import MappedFile

if TYPE_CHECKING:
    from normexp.data.images import Scaling

Chosen = Tensor | slice  # numbers of rows, or a stretch of them
Batch = tuple[Tensor, Tensor]
GATHERED_ELEMENTS = 2**19  # numbers of inputs that are taken at once, at least one batch
ALIGNMENT = 16  # numbers: 64 bytes, where memory of its own would start
SMALL_BYTES = 2**26  # bytes; a split up to this size is kept as the network's numbers, so a batch is one copy
CONVERTED_SHARE, BYTES_SHARE = (
    0.1,
    1 / 3,
)  # most of a GPU's free memory that a split takes as numbers, or as bytes
PREFETCH_BYTES = 2**25  # most bytes of batches that lie ready, at least one batch
READAHEAD_BYTES = 2**27  # most bytes that the disk is asked for, at least one batch


def keyed_number(*key: str | int) -> int:
    """A number of 63 bits, derived from the key."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def keyed_generator(*key: str | int) -> torch.Generator:
    """A CPU generator seeded by the key, e.g. ("batches", seed, epoch). torch's global generator stays untouched."""
    return torch.Generator().manual_seed(keyed_number(*key))


def split_random(seed: int) -> np.random.RandomState:
    """A generator whose stream numpy never changes, so splits stay equal across versions of torch and numpy."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"data.split_seed={seed}: choose a number in 0..{2**32 - 1}")
    return np.random.RandomState(seed)


def stratified_order(labels: Tensor, seed: int) -> Tensor:
    """An order of all samples in which every stretch holds the classes in proportion.

    The j-th of the n_c shuffled samples of class c stands at (j + 1/2) / n_c. So before place t there are round(t n_c)
    samples of class c. Stretches of this order are stratified splits. The prefixes of one stretch are nested subsets.
    """
    classes = labels.numpy()
    shuffled = split_random(seed).permutation(len(classes))
    place = np.empty(len(classes))
    for label in np.unique(classes):
        members = shuffled[classes[shuffled] == label]
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return torch.from_numpy(shuffled[np.argsort(place[shuffled], kind="stable")])


class ShuffledOrder:
    """Every row at most once per epoch, in a new random order each epoch. The incomplete last batch is dropped."""

    def __init__(self, num_rows: int, batch_size: int, seed: int) -> None:
        self.num_rows = num_rows
        self.batch_size = batch_size
        self.seed = seed

    def __len__(self) -> int:
        return self.num_rows // self.batch_size

    def batches(self, epoch: int) -> Tensor:
        """Row numbers of an epoch's batches, (num_batches, batch_size) on the CPU."""
        rows = torch.randperm(self.num_rows, generator=keyed_generator("batches", self.seed, epoch))
        return rows[: len(self) * self.batch_size].view(len(self), self.batch_size)


class WindowOrder(ShuffledOrder):
    """Windows of `context_length` inputs, shuffled. They tile a token stream from a start that each epoch draws anew.

    A row is the position of a window's first token. The number of windows does not depend on the start.
    """

    def __init__(self, num_tokens: int, context_length: int, batch_size: int, seed: int) -> None:
        # Targets are the inputs shifted by one, so windows lie within num_tokens - 1 inputs. To allow every start,
        # up to one window is given up. The shortest stream holds one window and has fewer starts.
        num_windows = max(1, (num_tokens - context_length) // context_length)
        super().__init__(num_windows, batch_size, seed)
        self.context_length = context_length
        self.num_starts = min(context_length, num_tokens - num_windows * context_length)

    def batches(self, epoch: int) -> Tensor:
        generator = keyed_generator("window start", self.seed, epoch)
        start = torch.randint(self.num_starts, (), generator=generator)
        return start + self.context_length * super().batches(epoch)


class ClassPairedOrder(ShuffledOrder):
    """Batches of batch_size / samples_per_class distinct random classes with samples_per_class samples each.

    Batch Renormalization (Ioffe 2017, arXiv:1702.03275) uses such batches as an example of dependent draws.
    Within a class no sample is used again before all are used. An epoch has as many batches as with ShuffledOrder.
    """

    def __init__(self, labels: Tensor, samples_per_class: int, batch_size: int, seed: int) -> None:
        super().__init__(len(labels), batch_size, seed)
        option = f"data.samples_per_class={samples_per_class}"
        if samples_per_class < 1 or batch_size % samples_per_class:
            raise ValueError(f"{option}: does not divide batch_size={batch_size}; choose a divisor of it")
        self.members = [(labels == label).nonzero().flatten() for label in labels.unique()]
        self.samples_per_class = samples_per_class
        self.classes_per_batch = batch_size // samples_per_class
        if self.classes_per_batch > len(self.members):
            raise ValueError(
                f"{option}: batch_size={batch_size} needs {self.classes_per_batch} classes in a batch and the data "
                f"has {len(self.members)}; batch_size may be at most {samples_per_class * len(self.members)}"
            )
        smallest = min(len(members) for members in self.members)
        if samples_per_class > smallest:
            raise ValueError(f"{option}: the smallest class has {smallest} training samples; choose fewer")

    def batches(self, epoch: int) -> Tensor:
        generator = keyed_generator("batches", self.seed, epoch)
        shuffled = torch.rand(len(self), len(self.members), generator=generator).argsort(dim=1)
        classes = shuffled[:, : self.classes_per_batch]  # (num_batches, classes_per_batch), distinct in a row
        rows = torch.empty(*classes.shape, self.samples_per_class, dtype=torch.int64)
        for label, members in enumerate(self.members):
            chosen = classes == label
            rows[chosen] = self._groups(members, int(chosen.sum()), generator)
        return rows.flatten(1)  # (num_batches, batch_size)

    def _groups(self, members: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """`count` groups of a class's samples, (count, samples_per_class). Each pass shuffles the class anew."""
        per_pass = len(members) // self.samples_per_class
        passes = [
            members[torch.randperm(len(members), generator=generator)[: per_pass * self.samples_per_class]]
            for _ in range(1 + count // per_pass)
        ]
        return torch.cat(passes).view(-1, self.samples_per_class)[:count]


def keep_converted(nbytes: int, device: torch.device) -> bool:
    """Whether a device keeps a split of `nbytes` as numbers."""
    return nbytes <= SMALL_BYTES or (device.type == "cuda" and nbytes <= CONVERTED_SHARE * _free(device))


def fits(nbytes: int, device: torch.device) -> bool:
    """Whether a whole split of `nbytes` fits on a device. A device that is no GPU shares the memory of the host."""
    return device.type != "cuda" or nbytes <= BYTES_SHARE * _free(device)


def _free(device: torch.device) -> int:
    return torch.cuda.mem_get_info(device)[0]


class Rows:
    """Inputs and targets: (N, ...) each, one row per sample. Of a text: its tokens and the next tokens."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self._x, self._y = x, y

    @property
    def x(self) -> Tensor:
        """All inputs at once."""
        return self._x

    @property
    def y(self) -> Tensor:
        """All targets at once."""
        return self._y

    def __iter__(self) -> Iterator[Tensor]:
        yield self.x
        yield self.y

    def __len__(self) -> int:
        return len(self.y)

    @property
    def device(self) -> torch.device:
        """Device of the batches."""
        return self.y.device

    @property
    def index_device(self) -> torch.device:
        """Device that row numbers must be on."""
        return self.y.device

    def begin(self, epoch: int) -> None:
        """Prepare for the batches of this epoch, if rows differ between epochs."""

    def on(self, device: torch.device) -> "Rows":
        """The same rows for another device."""
        return Rows(self.x.to(device), self.y.to(device))

    def take(self, chosen: Chosen) -> Batch:
        if isinstance(chosen, slice):
            return self._x[chosen], self._y[chosen]
        return self._x.index_select(0, chosen), self._y.index_select(0, chosen)

    def batches(self, chosen: Iterable[Chosen]) -> Iterator[Batch]:
        """The batches of these rows. Small batches are taken several at once, and handed out as views: each call costs
        some microseconds after a backward pass that filled the caches."""
        if not isinstance(chosen, Tensor):
            for rows in chosen:
                yield self.take(rows)
            return
        size = chosen.shape[1]
        numbers = max(1, size * self._x[:1].numel())
        together = 1 if numbers % ALIGNMENT else max(1, GATHERED_ELEMENTS // numbers)
        for some in chosen.split(together):
            x, y = self.take(some.flatten())
            yield from zip(x.split(size), y.split(size), strict=True)


class Windows(Rows):
    """Windows of a text, (N, T): views of one stream. Tokens are kept in a small type; batches are int64.

    Args:
        device: of the batches, if the stream does not fit there.
    """

    def __init__(self, x: Tensor, y: Tensor, device: torch.device) -> None:
        super().__init__(x, y)
        self._device = device

    @property
    def device(self) -> torch.device:
        return self._device

    def take(self, chosen: Chosen) -> Batch:
        x, y = super().take(chosen)
        return x.to(self._device).long(), y.to(self._device).long()


class PixelRows(Rows):
    """Images kept as bytes; each batch is turned into numbers.

    Where the bytes are not on the device of the batches, or in a file that may not fit into memory, a thread reads some
    batches ahead. A GPU copies them from pinned memory while it computes.

    Args:
        pixels: uint8 (M, C, H, W), in memory, mapped from a file, or on a device.
        indices: the number of each row's image, int64 (N,), where the pixels are.
        y: targets (N,), where the pixels are.
        scaling: bytes to numbers.
        device: of the batches; None: where the pixels are.
        file: the file that the pixels are mapped from; None if they are in memory.
    """

    def __init__(
        self,
        pixels: Tensor,
        indices: Tensor,
        y: Tensor,
        scaling: "Scaling",
        device: torch.device | None = None,
        file: MappedFile | None = None,
    ) -> None:
        super().__init__(pixels, y)
        self.pixels, self.indices, self.file = pixels, indices, file
        self._device = device or y.device
        self.scaling = scaling.to(self._device)
        self.prefetches = self._device != y.device or (file is not None and file.large)

    @property
    def x(self) -> Tensor:
        return self.take(slice(None))[0]

    @property
    def device(self) -> torch.device:
        return self._device

    def on(self, device: torch.device) -> Rows:
        """The same rows for a device: numbers if they take little room, else bytes if they fit, else read ahead."""
        nbytes = len(self) * self.pixels[0].numel()
        if keep_converted(4 * nbytes, device):
            return Rows(*(self if device == self.device else self._copied(device)))
        if device == self.device:
            return self
        if fits(nbytes, device):
            return self._copied(device)
        return PixelRows(self.pixels, self.indices, self.y, self.scaling, device, self.file)

    def _copied(self, device: torch.device) -> "PixelRows":
        """Only the bytes of these rows, copied to a device in pieces, so the host holds few at a time."""
        pixels = torch.empty(len(self), *self.pixels.shape[1:], dtype=torch.uint8, device=device)
        for start in range(0, len(self), 4096):
            some = slice(start, start + 4096)
            pixels[some] = self._bytes_of(some)[0].to(device)
        return PixelRows(pixels, torch.arange(len(self), device=device), self.y.to(device), self.scaling)

    def take(self, chosen: Chosen) -> Batch:
        return self._scaled(self._bytes_of(chosen))

    def batches(self, chosen: Iterable[Chosen]) -> Iterator[Batch]:
        return self._prefetched(list(chosen)) if self.prefetches else super().batches(chosen)

    def _bytes_of(self, chosen: Chosen) -> Batch:
        if isinstance(chosen, slice):
            return self.pixels.index_select(0, self.indices[chosen]), self.y[chosen]
        indices = self.indices.index_select(0, chosen)
        return self.pixels.index_select(0, indices), self.y.index_select(0, chosen)

    def _scaled(self, batch: Batch) -> Batch:
        pixels, y = (part.to(self._device, non_blocking=True) for part in batch)
        return self.scaling(pixels), y

    def _prefetched(self, chosen: list[Chosen]) -> Iterator[Batch]:
        batch_bytes = len(self.indices[chosen[0]]) * self.pixels[0].numel() if chosen else 1
        ready, asked = (max(1, room // max(1, batch_bytes)) for room in (PREFETCH_BYTES, READAHEAD_BYTES))

        def read(number: int) -> Batch:
            """Batch `number`, after the disk was asked for those that come later."""
            if self.file is not None:
                for rows in chosen[number + asked if number else 0 : number + asked + 1]:
                    self.file.prefetch(self.indices[rows].tolist())
            x, y = self._bytes_of(chosen[number])
            return (x.pin_memory(), y.pin_memory()) if self._device.type == "cuda" else (x, y)

        waiting: deque[Future[Batch]] = deque()
        reader = ThreadPoolExecutor(1, thread_name_prefix="rows ahead")
        try:
            for number in range(len(chosen)):
                waiting.append(reader.submit(read, number))
                if len(waiting) > ready:
                    yield self._scaled(waiting.popleft().result())
            while waiting:
                yield self._scaled(waiting.popleft().result())
        finally:  # also when training stops in the middle of an epoch
            reader.shutdown(cancel_futures=True)
