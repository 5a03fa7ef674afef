"""Models. Each takes (input_shape, num_classes, norm factory) and names its measuring places in ``sites()``; networks
of other people are wrapped so."""

from normexp.models.cnn import CNN
from normexp.models.gpt import GPT
from normexp.models.mlp import MLP
from normexp.models.other_network import OwnNetwork, Torchvision
from normexp.models.resnet import ResNet
from normexp.models.sites import Site
from normexp.models.transformer import Transformer

__all__ = ["CNN", "GPT", "MLP", "OwnNetwork", "ResNet", "Site", "Torchvision", "Transformer"]
