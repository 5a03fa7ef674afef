"""What monitors take from the places where they measure: rows of channels, weights, and what stands before a layer."""

from torch import Tensor, nn

from normexp.models.sites import LINEAR_MAPS, WHOLE, Site
from normexp.norms.layers import is_norm

CHANNELS_FIRST = {"num_features", "num_groups", "size"}  # of torch's batch, instance, group, response norms


def first_tensor(args: tuple, kwargs: dict) -> Tensor | None:
    """What a module was called with, by position or by name; None where that is no tensor of numbers."""
    return next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)


def to_rows(x: Tensor, channel_dim: int) -> Tensor:
    """(N, C, ...) or (N, T, C) -> (n, C)."""
    x = x.detach()
    if not x.is_floating_point() or x.element_size() < 4:
        x = x.float()
    return x.movedim(channel_dim, -1).flatten(0, -2)


def wide(x: Tensor) -> Tensor:
    """x in float64, if the device has it."""
    return x.float() if x.device.type == "mps" else x.double()


def layer_weights(sites: list[Site], kind: str = "linear") -> dict[str, list[nn.Parameter]]:
    """Trained parameters of each linear map, or place of another kind, by layer; a shared one belongs to its first
    layer."""
    seen: set[nn.Parameter] = set()
    weights: dict[str, list[nn.Parameter]] = {}
    for site in sites:
        if site.kind == kind:
            own = [p for p in site.module.parameters() if p.requires_grad and p not in seen]
            seen.update(own)
            if own:
                weights[site.layer] = own
    return weights


def noise_before(sites: list[Site]) -> dict[str, list[nn.Module]]:
    """For the layer of each linear map, the norms before it that draw new noise at each step (`next_noise`)."""
    passed: list[nn.Module] = []
    before = {}
    for site in sites:
        if site.kind == "linear":
            before[site.layer] = list(passed)
        if hasattr(site.module, "next_noise"):
            passed.append(site.module)
    return before


def weights_before(module: nn.Module, sites: list[Site]) -> dict[str, list[nn.Parameter]]:
    """For the layer of each linear map, the trained parameters before it. These are the parameters of earlier sites,
    such as a norm's gain, and those of no site, such as embeddings, which stand at the input."""
    of_sites = {p for site in sites if site.kind != "embedding" for p in site.module.parameters()}
    passed = dict.fromkeys(p for p in module.parameters() if p.requires_grad and p not in of_sites)
    before = {}
    for site in sites:
        if site.kind == "linear":
            before[site.layer] = list(passed)
        passed |= dict.fromkeys(p for p in site.module.parameters() if p.requires_grad)
    return before


def has_own_axis(module: nn.Module) -> bool:
    """Whether a layer defines where its channels are, whatever arrives."""
    if getattr(module, "channel_dim", None) is not None:
        return True
    return isinstance(module, (*LINEAR_MAPS, *WHOLE)) or bool(CHANNELS_FIRST & module.__dict__.keys())


def channel_dim(module: nn.Module, ndim: int) -> int:
    """The channel axis of a site's tensors: that of the norm, else 1 for (N, C) and (N, C, H, W), -1 for (N, T, C)."""
    if getattr(module, "channel_dim", None) is not None:
        return module.channel_dim
    if isinstance(module, (nn.Linear, nn.Bilinear, *WHOLE)):
        return -1
    if isinstance(module, LINEAR_MAPS) or CHANNELS_FIRST & module.__dict__.keys():
        return 1
    if is_norm(module) and not (ndim == 4 and type(module).__name__.endswith("2d")):  # as LayerNorm2d's
        return -1
    return -1 if ndim == 3 else 1
