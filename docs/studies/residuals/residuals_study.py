"""Who needs a norm where a sum carries the gradient past the layers? A ResNet whose branches start at 0."""

from typing import Any

import torch
from torch import Tensor, nn

from normexp.models import ResNet


class Gate(nn.Module):
    """y = gain * layer(x), with one learned gain that starts at 0."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.gain = layer, nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * self.layer(x)


class SkipInitResNet(ResNet):
    """A ResNet whose every branch is multiplied with a learned number that starts at 0, so that at first a block passes
    its input on (SkipInit: De, Smith 2020, arXiv:2002.10444)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for block in self.blocks:
            block.norm2 = Gate(block.norm2)
