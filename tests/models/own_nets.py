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


class Lazy(nn.Module):
    """Its layers learn their sizes from the first input."""

    def __init__(self, num_classes: int):
        super().__init__()
        self.convolution, self.norm = nn.LazyConv2d(6, 3), nn.LazyBatchNorm2d()
        self.output = nn.LazyLinear(num_classes)

    def forward(self, images):
        return self.output(self.norm(self.convolution(images)).flatten(1))


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


class WritesInEvaluation(Plain):
    """Works in place only where no gradient is needed."""

    def forward(self, images):
        return super().forward(images - 0.3 if self.training else images.sub_(0.3))


class ForgetsItsMean(Plain):
    """Its running mean is in no checkpoint. Its cache, made once, need not be."""

    def __init__(self, num_classes: int, persistent: bool = False):
        super().__init__(num_classes)
        self.register_buffer("mean", torch.zeros(()), persistent=persistent)
        self.register_buffer("cache", None, persistent=False)

    def forward(self, images):
        if self.cache is None:
            self.cache = torch.ones(images.shape[1:], device=images.device)
        if self.training:
            self.mean.lerp_(images.detach().mean(), 0.1)
        return super().forward(images - self.mean * self.cache)


class PartInEvalMode(nn.Module):
    """Its norm is frozen, and a number is a parameter."""

    def __init__(self, input_shape, num_classes):
        super().__init__()
        self.first = nn.Linear(input_shape[1] * input_shape[2], 12)
        self.norm = nn.BatchNorm1d(12).eval()
        self.norm.running_var.fill_(0.3)
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.output = nn.Linear(12, num_classes)

    def forward(self, images):
        return self.output(self.scale * torch.tanh(self.norm(self.first(images.flatten(1)))))


class Hooked(Plain):
    """A hook on the network itself turns its inputs around."""

    accepts = "image"

    def __init__(self, input_shape=None, num_classes: int = 10, norm=None):
        super().__init__(num_classes)
        self.register_forward_pre_hook(lambda network, inputs: (-inputs[0],))


class Wide(Plain):
    def __init__(self, num_classes: int, width: int):
        super().__init__(num_classes, width)
