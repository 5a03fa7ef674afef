"""Sites: the places of a model where monitors measure. Tags and tables use their names."""

from typing import Literal, NamedTuple

from torch import nn

from normexp.norms.layers import is_norm


class Site(NamedTuple):
    """One measuring place. Within one kind, names are unique, and alphabetical order is forward order.

    kind "linear" is a linear map (dense layer or convolution), "residual" the residual stream, read at an
    ``nn.Identity`` that the stream passes through, "branch" what a branch adds to the stream of the same name, read in
    the same way, "embedding" a table of vectors. The same sites exist under every norm.
    """

    layer: str
    kind: Literal["norm", "activation", "linear", "residual", "branch", "embedding"]
    module: nn.Module


def layer_name(index: int, last: int, role: str = "") -> str:
    """``layer03`` or ``layer03_role``, padded with zeros so that the names up to ``last`` sort in order."""
    digits = max(2, len(str(last)))
    return f"layer{index:0{digits}d}" + (f"_{role}" if role else "")


ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.RReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Sigmoid, nn.LogSigmoid, nn.Tanh, nn.Softplus, nn.Softsign, nn.Hardtanh, nn.Hardsigmoid, nn.Hardswish,
)  # fmt: skip
LINEAR_MAPS = (
    nn.Linear, nn.Bilinear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
)  # fmt: skip
ATTENTION, RECURRENT, EMBEDDINGS = (
    (nn.MultiheadAttention,),
    (nn.RNNBase, nn.RNNCellBase),
    (nn.Embedding, nn.EmbeddingBag),
)
WHOLE = (*ATTENTION, *RECURRENT)  # their children are not called: one function gets all weights


def derived_sites(network: nn.Module) -> list[Site]:
    """Norms, activations, linear maps and embeddings in the order of `named_modules` (the order of definition). Names
    are `layer03_<path>`. Convolutions, attention and recurrent layers count as linear maps, because they hold weights.
    A module that is used at several places is one site, measured at its first use."""
    found: list[tuple[str, str, nn.Module]] = []
    whole = "\0"
    for path, child in network.named_modules():
        if path.startswith(whole) or (kind := kind_of(child, path)) is None:
            continue
        found.append((path, kind, child))
        if isinstance(child, WHOLE):
            whole = f"{path}." if path else ""
    digits = max(2, len(str(len(found) - 1)))
    return [
        Site(f"layer{index:0{digits}d}_{path.replace('.', '_')}", kind, child)
        for index, (path, kind, child) in enumerate(found)
    ]


def kind_of(module: nn.Module, path: str = "") -> str | None:
    """The kind of site that a module at this path of a network is, or None."""
    if is_norm(module, path):
        return "norm"
    if isinstance(module, ACTIVATIONS):
        return "activation"
    if isinstance(module, EMBEDDINGS):
        return "embedding"
    return "linear" if isinstance(module, (*LINEAR_MAPS, *WHOLE)) else None


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
