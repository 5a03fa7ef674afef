"""Data sets as users bring them; `data=module` finds them by name."""

import numpy as np
import pytorch_lightning as pl
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    random_split,
)

SEEDS = {"train": 0, "val": 1, "test": 2}


class Noisy(Dataset):
    """Three classes; training items get noise from torch's global generator, as transforms do."""

    classes = ("a", "b", "c")

    def __init__(self, split: str, size: int = 60) -> None:
        random = torch.Generator().manual_seed(SEEDS[split])
        self.x = torch.randn(size, 3, 8, 8, generator=random)
        self.labels = torch.randint(3, (size,), generator=random)
        self.training = split == "train"

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        x = self.x[row]
        return (x + 0.1 * torch.randn_like(x) if self.training else x), int(self.labels[row])


class NoneToTest(Noisy):
    def __len__(self) -> int:
        return 0 if not self.training and torch.equal(self.x[0], Noisy("test").x[0]) else len(self.x)


class NotFinite(Noisy):
    """One value of one item is not a number, in each split."""

    def __init__(self, split: str) -> None:
        super().__init__(split)
        self.x[7, 0, 0, 0] = torch.nan


class NotFiniteToTest(NotFinite):
    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        x, label = super().__getitem__(row)
        return (x.nan_to_num() if self.training else x), label


class Worded(Noisy):
    num_classes = "three"


class Constant(Noisy):
    """Every training item has the same class."""

    def __init__(self, split: str) -> None:
        super().__init__(split)
        self.labels = self.labels * (split != "train")


class Edited(Dataset):
    """300 items a split, of which one may be edited; counts which items are asked for."""

    classes = ("a", "b", "c")

    def __init__(
        self, split: str, edited: str = "", label=None, pixel=None, broken=None, listed=True
    ) -> None:
        random = torch.Generator().manual_seed(SEEDS[split])
        self.x = torch.randn(300, 3, 8, 8, generator=random)
        self.y = torch.arange(300) % 3
        self.broken = broken if split == edited else None
        if split == edited and label is not None:
            self.y[label[0]] = label[1]
        if split == edited and pixel is not None:
            self.x[pixel, 0, 0, 0] += 1
        if listed:
            self.targets = self.y.tolist()
        self.asked = []

    def __len__(self) -> int:
        return 300

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        self.asked.append(row)
        if row == self.broken:
            raise OSError(f"item {row}")
        return self.x[row], int(self.y[row])


class Named(Edited):
    """It says itself which version it is."""

    fingerprint = "version 1"


class Module(pl.LightningDataModule):
    """The same in a LightningDataModule, with worker processes."""

    num_classes = 3

    def __init__(self, workers: int = 2) -> None:
        super().__init__()
        self.workers = workers

    def setup(self, stage: str) -> None:
        self.sets = {split: Noisy(split) for split in SEEDS}

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.sets["train"], batch_size=7, num_workers=self.workers)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.sets["val"])

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.sets["test"])


class WithoutTest(Module):
    test_dataloader = pl.LightningDataModule.test_dataloader


class TwoLoaders(Module):
    def val_dataloader(self) -> list[DataLoader]:
        return [super().val_dataloader()] * 2


class Nameless(Noisy):
    classes = None


class Bytes(Noisy):
    def __getitem__(self, row: int):
        x, y = super().__getitem__(row)
        return x.byte(), y


class Broken(Noisy):
    def __getitem__(self, row: int):
        raise RuntimeError("a file\nis gone")


class Stream(IterableDataset):
    classes = ("a", "b")

    def __init__(self, split: str) -> None: ...

    def __iter__(self):
        yield torch.zeros(1, 2, 2), 0


class NoSplits(Dataset):
    def __init__(self, root: str = "") -> None: ...


class SplitBySampler(Module):
    """One Dataset for training and validation, parted by samplers, as many tutorials do."""

    def _loader(self, items):
        return DataLoader(Noisy("train"), batch_size=5, sampler=SubsetRandomSampler(items))

    def train_dataloader(self):
        return self._loader(range(40))

    def val_dataloader(self):
        return self._loader(range(40, 60))


class WeightedTraining(Module):
    """Draws rare classes more often."""

    def train_dataloader(self):
        items = Noisy("train")
        batches = BatchSampler(WeightedRandomSampler(torch.ones(60).tolist(), 60), 5, drop_last=True)
        return DataLoader(items, batch_sampler=batches)


class DrawsItsSplit(Module):
    """Parts one Dataset at random, each time that it is asked."""

    def setup(self, stage: str) -> None:
        train, val = random_split(Noisy("val"), [40, 20])
        self.sets = {"train": train, "val": val, "test": val}


class DrawsItsPart(Dataset):
    """The same in a Dataset, which parts itself in its constructor."""

    classes = ("a", "b", "c")

    def __init__(self, split: str) -> None:
        items, places = Noisy("val"), np.random.permutation(60)
        chosen = places[:40] if split == "train" else places[40:]
        self.items = [items[place] for place in chosen]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return self.items[row]
