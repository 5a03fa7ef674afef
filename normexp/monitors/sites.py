"""Where monitors measure: the places a model names itself, or those found in a person's own module."""

from torch import nn

from normexp.sites import Site

NORMS = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.InstanceNorm1d, nn.InstanceNorm2d,
    nn.InstanceNorm3d, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm,
)  # fmt: skip
ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Sigmoid,
    nn.LogSigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish,
)  # fmt: skip
LINEAR_MAPS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def sites_of(module: nn.Module) -> list[Site]:
    """Sites in forward order: `module.sites()`, else `module.model.sites()`, else those derived from its layers."""
    for owner in (module, getattr(module, "model", None)):
        if hasattr(owner, "sites"):
            return [Site(*site) for site in owner.sites()]
    return derived_sites(module)


def derived_sites(module: nn.Module) -> list[Site]:
    """torch's norms, activations and linear maps in the order of `named_modules` (the order of definition), named
    `layer03_<path>`. A module that is used at several places is one site, measured at its first use."""
    found = [(path, kind_of(child), child) for path, child in module.named_modules()]
    found = [item for item in found if item[1] is not None]
    digits = max(2, len(str(len(found) - 1)))
    return [
        Site(f"layer{index:0{digits}d}_{path.replace('.', '_')}", kind, child)
        for index, (path, kind, child) in enumerate(found)
    ]


def kind_of(module: nn.Module) -> str | None:
    """The kind of measuring place that a module is, None for none."""
    # The second test knows the norms of this project, which monitors do not import.
    if isinstance(module, NORMS) or hasattr(module, "batch_statistics"):
        return "norm"
    if isinstance(module, ACTIVATIONS):
        return "activation"
    return "linear" if isinstance(module, LINEAR_MAPS) else None


def layer_weights(sites: list[Site]) -> dict[str, list[nn.Parameter]]:
    """Trained parameters of each linear map by layer, in forward order; a shared one belongs to its first layer."""
    seen: set[nn.Parameter] = set()
    weights: dict[str, list[nn.Parameter]] = {}
    for site in sites:
        if site.kind == "linear":
            own = [p for p in site.module.parameters() if p.requires_grad and p not in seen]
            seen.update(own)
            if own:
                weights[site.layer] = own
    return weights


def weights_before(module: nn.Module, sites: list[Site]) -> dict[str, list[nn.Parameter]]:
    """For the layer of each linear map, the trained parameters that come before it: those of earlier sites (a norm's
    gain too), and those of no site, such as embeddings, which stand at the input."""
    of_sites = {p for site in sites for p in site.module.parameters()}
    passed = dict.fromkeys(p for p in module.parameters() if p.requires_grad and p not in of_sites)
    before = {}
    for site in sites:
        if site.kind == "linear":
            before[site.layer] = list(passed)
        passed |= dict.fromkeys(p for p in site.module.parameters() if p.requires_grad)
    return before


def channel_dim(module: nn.Module, ndim: int) -> int:
    """The channel axis of a site's tensors: the norm's own, else 1 for (N, C) and (N, C, H, W), -1 for (N, T, C)."""
    if hasattr(module, "channel_dim"):
        return module.channel_dim
    if isinstance(module, NORMS + LINEAR_MAPS):
        return -1 if isinstance(module, (nn.LayerNorm, nn.RMSNorm, nn.Linear)) else 1
    return -1 if ndim == 3 else 1
