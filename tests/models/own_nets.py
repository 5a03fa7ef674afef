"""Networks as users bring them; `model=module` finds them by name."""

import torch
from torch import nn


class Plain(nn.Module):
    """Knows the number of classes, and has norms of its own."""

    def __init__(self, num_classes: int, width: int = 8):
        super().__init__()
        self.convolution = nn.Conv2d(1, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.output = nn.Linear(width, num_classes)

    def forward(self, images):
        return self.output(torch.relu(self.norm(self.convolution(images))).mean((2, 3)))


class BuildsNorms(nn.Module):
    """Takes the run's norm and builds its layers with it."""

    def __init__(self, input_shape, num_classes, norm):
        super().__init__()
        self.norm = norm(input_shape[0] * input_shape[1] * input_shape[2], channel_dim=1)
        self.output = nn.Linear(self.norm.num_features, num_classes)

    def forward(self, images):
        return self.output(self.norm(images.flatten(1)))


class Words(nn.Module):
    """Tokens to logits of the next token."""

    def __init__(self, num_classes: int):
        super().__init__()
        self.embedding = nn.Embedding(num_classes, 8)
        self.norm = nn.LayerNorm(8)
        self.output = nn.Linear(8, num_classes)

    def forward(self, tokens):
        return self.output(self.norm(self.embedding(tokens)))


class Broken(nn.Module):
    def __init__(self, num_classes: int):
        super().__init__()
        raise KeyError("layers")


class WritesIntoInputs(Plain):
    """Its first operation works in place."""

    def forward(self, images):
        return super().forward(images.sub_(0.3))


class WritesIntoAView(Plain):
    """The same, through a view, and after it read a value."""

    def forward(self, images):
        assert images.sum().isfinite().item()
        return super().forward(images[:, :1].clamp_(min=0.0))


class Wide(Plain):
    def __init__(self, num_classes: int, width: int):
        super().__init__(num_classes, width)
