"""Models. Each takes (input_shape, num_classes, norm factory) and names its measuring places in ``sites()``."""

from normexp.models.cnn import CNN
from normexp.models.gpt import GPT
from normexp.models.mlp import MLP
from normexp.models.resnet import ResNet
from normexp.models.transformer import Transformer
from normexp.sites import Site

__all__ = ["CNN", "GPT", "MLP", "ResNet", "Site", "Transformer"]
