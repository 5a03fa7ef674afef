"""The networks of torchvision and timm by their names, with the run's norm."""

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


class Timm(OtherNetwork):
    """A network of timm by its name. No weights are downloaded. Needs `pip install normexp[timm]`.

    Args:
        input_shape: (C, H, W).
        norm: factory, called as ``norm(num_features, channel_dim, layer=k)`` for each norm of the network.
        stem: small keeps the resolution in the first layers, for images of 32x32; see `make_stem_small`.
        weights: a file of weights. If the number of classes differs, the last layer stays as initialized.
        options: of `timm.create_model`, e.g. `drop_path_rate: 0.1`.

    Raises:
        ValueError: timm is not installed, an unknown name or option, a file that does not fit.
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
        try:
            import timm
        except ImportError:
            raise ValueError("model=timm: timm is not installed; pip install normexp[timm]") from None
        if not name.isidentifier() or not timm.is_model(name):  # timm would take another name for an address
            raise ValueError(f"model.name={name}: timm has no such network; timm.list_models() names them")
        channels, *sides = input_shape
        for key in ("pretrained", "checkpoint_path", "num_classes", "in_chans"):
            if key in (options or {}):
                raise ValueError(f"model.options.{key}: is given by normexp; use model.weights for weights")
        more = {"img_size": sides[0]} if name.startswith(("vit_", "deit", "swin", "eva", "beit")) else {}
        network = timm.create_model(
            name, pretrained=False, num_classes=num_classes, in_chans=channels, **(more | (options or {}))
        )
        super().__init__(network, norm, weights=weights, stem=stem)
