"""Which sample lies in which split and batch: a pure function of seed and epoch, equal on every device. Splits have a
seed of their own, so the run's seed does not change the validation set."""

import hashlib

import numpy as np
import torch
from torch import Tensor

from normexp.format import pluralize


def keyed_number(*key: str | int) -> int:
    """A number of 63 bits, derived from the key."""
    digest = hashlib.sha256(repr(key).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def keyed_generator(*key: str | int) -> torch.Generator:
    """A CPU generator seeded by the key, e.g. ("batches", seed, epoch). torch's global generator stays untouched."""
    return torch.Generator().manual_seed(keyed_number(*key))


def split_random(seed: int) -> np.random.RandomState:
    """A generator whose stream numpy never changes, so splits stay equal across versions of torch and numpy."""
    return np.random.RandomState(seed)


def stratified_order(labels: Tensor, seed: int) -> Tensor:
    """An order of all samples in which every stretch holds the classes in proportion.

    The j-th of the n_c shuffled samples of class c stands at (j + 1/2) / n_c. So before place t there are round(t n_c)
    samples of class c. Stretches of this order are stratified splits. The prefixes of one stretch are nested subsets.
    """
    classes = labels.numpy()
    shuffled = split_random(seed).permutation(len(classes))
    position = np.empty(len(classes))
    for label in np.unique(classes):
        members = shuffled[classes[shuffled] == label]
        position[members] = (np.arange(len(members)) + 0.5) / len(members)
    return torch.from_numpy(shuffled[np.argsort(position[shuffled], kind="stable")])


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
        if batch_size % samples_per_class:
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
            raise ValueError(
                f"{option}: the smallest class has {pluralize(smallest, 'training sample')}; choose fewer"
            )

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
