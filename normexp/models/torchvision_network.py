"""The classification networks of torchvision, with the run's norm."""

import difflib
from collections.abc import Callable
from typing import Any, Literal

from torch import nn

from normexp.models.other_network import OtherNetwork


class Torchvision(OtherNetwork):
    """A network of `torchvision.models` by its name: resnet18, vgg11_bn, densenet121, convnext_tiny, vit_b_16, swin_t.

    Args:
        input_shape: (C, H, W); C is 1 or 3. A vit is built for the side of the image.
        norm: factory, called as ``norm(num_features, channel_dim, layer=k)`` for each norm of the network.
        stem: small keeps the resolution in the first layers, for images of 32x32; see `make_stem_small`.
        weights: a file of weights. If the number of classes differs, the last layer stays as initialized.
        options: of torchvision's builder, e.g. `dropout: 0.1`.

    Raises:
        ValueError: an unknown name or option, an image of other channels, a file that does not fit.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        norm: Callable[..., nn.Module],
        *,
        name: str,
        stem: Literal["own", "small"] = "own",
        weights: str | None = None,
        options: dict[str, Any] | None = None,
    ):
        from torchvision import models

        # Only of `torchvision.models` itself, because detection and segmentation lie in its sub-packages.
        if name not in (known := models.list_models(module=models)):
            near = difflib.get_close_matches(name, known, n=3) or known[:3]
            raise ValueError(
                f"model.name={name}: torchvision has no such network; {', '.join(near)} and others are there"
            )
        channels, *sides = input_shape
        if channels not in (1, 3):
            raise ValueError(f"model.name={name}: takes images of 1 or 3 channels, and these have {channels}")
        more: dict[str, Any] = {"image_size": sides[0]} if name.startswith("vit_") else {}
        more |= {"aux_logits": False, "init_weights": True} if name in ("googlenet", "inception_v3") else {}
        network = models.get_model(name, weights=None, num_classes=num_classes, **(more | (options or {})))
        super().__init__(network, norm, weights=weights, channels=3, stem=stem)
