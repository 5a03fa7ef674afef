"""The networks of timm (Wightman, PyTorch Image Models), with the run's norm."""

from collections.abc import Callable
from typing import Any, Literal

from torch import nn

from normexp.models.other_network import OtherNetwork


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
