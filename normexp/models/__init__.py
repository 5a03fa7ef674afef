"""Models. Each takes (input_shape, num_classes, norm factory) and names its measuring places in ``sites()``; networks
of other people are wrapped so."""

from normexp.models.cnn import CNN
from normexp.models.gpt import GPT
from normexp.models.mlp import MLP
from normexp.models.own_network import OwnNetwork
from normexp.models.resnet import ResNet
from normexp.models.timm_network import Timm
from normexp.models.torchvision_network import Torchvision
from normexp.models.transformer import Transformer
from normexp.sites import Site

__all__ = ["CNN", "GPT", "MLP", "OwnNetwork", "ResNet", "Site", "Timm", "Torchvision", "Transformer"]
