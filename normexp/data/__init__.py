"""Data sets as LightningDataModules. A batch is made by indexing a tensor on the training device."""

from normexp.data.image_files import ImageFolder
from normexp.data.images import Digits
from normexp.data.own_data import OwnData
from normexp.data.standard_sets import CIFAR10, CIFAR10JPEG, CIFAR100, KMNIST, MNIST, FashionMNIST
from normexp.data.text import PythonDocs, TextFile

__all__ = [
    "CIFAR10", "CIFAR10JPEG", "CIFAR100", "KMNIST", "MNIST", "Digits", "FashionMNIST", "ImageFolder", "OwnData",
    "PythonDocs", "TextFile",
]  # fmt: skip
