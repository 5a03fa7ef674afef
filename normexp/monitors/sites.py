"""The places where monitors measure: those that a model names, or those found in a user's own module."""

from torch import Tensor, nn

from normexp.derived_sites import LINEAR_MAPS, WHOLE, derived_sites
from normexp.norm_layers import is_norm
from normexp.sites import Site

CHANNELS_FIRST = {"num_features", "num_groups", "size"}  # of torch's batch, instance, group, response norms


def sites_of(module: nn.Module) -> list[Site]:
    """Sites in forward order: `module.sites()`, else `module.model.sites()`, else sites derived from the layers."""
    for owner in (module, getattr(module, "model", None)):
        if hasattr(owner, "sites"):
            return [Site(*site) for site in owner.sites()]
    return derived_sites(module)


def names_its_sites(module: nn.Module) -> bool:
    """Whether the module defines its sites, so that there are no others. A wrapper of a network derives them."""
    owners = (module, getattr(module, "model", None))
    return any(hasattr(owner, "sites") and not getattr(owner, "derives_sites", False) for owner in owners)


def first_tensor(args: tuple, kwargs: dict) -> Tensor | None:
    """What a module was called with, by position or by name; None where that is no tensor of numbers."""
    return next((x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)), None)


def described(sites: list[Site]) -> str:
    """What was found, for messages: `2 linear (layer00_fc1, ...), 0 norm, 0 activation`."""
    parts = []
    for kind in ("linear", "norm", "activation", "residual", "embedding"):
        names = [site.layer for site in sites if site.kind == kind]
        parts.append(
            f"{len(names)} {kind}" + (f" ({names[0]}{', ...' if len(names) > 1 else ''})" if names else "")
        )
    return ", ".join(parts)


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


def channel_dim(module: nn.Module, ndim: int) -> int:
    """The channel axis of a site's tensors: that of the norm, else 1 for (N, C) and (N, C, H, W), -1 for (N, T, C)."""
    if hasattr(module, "channel_dim"):
        return module.channel_dim
    if isinstance(module, (nn.Linear, nn.Bilinear, *WHOLE)):
        return -1
    if isinstance(module, LINEAR_MAPS) or CHANNELS_FIRST & module.__dict__.keys():
        return 1
    if is_norm(module) and not (ndim == 4 and type(module).__name__.endswith("2d")):  # as LayerNorm2d's
        return -1
    return -1 if ndim == 3 else 1
