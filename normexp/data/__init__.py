"""Data sets as LightningDataModules. A batch is made by indexing a tensor on the training device."""

from normexp.data.cifar10_jpeg import CIFAR10JPEG
from normexp.data.digits import Digits
from normexp.data.image_folder import ImageFolder
from normexp.data.own_data import OwnData
from normexp.data.python_docs import PythonDocs
from normexp.data.text_file import TextFile
from normexp.data.torchvision_sets import CIFAR10, CIFAR100, KMNIST, MNIST, FashionMNIST

__all__ = [
    "CIFAR10",
    "CIFAR10JPEG",
    "CIFAR100",
    "KMNIST",
    "MNIST",
    "Digits",
    "FashionMNIST",
    "ImageFolder",
    "OwnData",
    "PythonDocs",
    "TextFile",
]
