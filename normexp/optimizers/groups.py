"""Groups of parameters: which of them decay, and which matrices Muon updates."""

import re
from collections.abc import Mapping
from typing import Any

from torch import nn

FINAL = re.compile(r"layer\d+_output$")
QK = ("_key", "_query")
OUTPUT = ("_sandwich", "_result", "_sum")  # the norm's output is the stream, or is added to it


def role_of_norm(site: str) -> str:
    """The role of a norm by the name of its site: `qk` of queries or keys in attention, `final` before the
    output map, `output_norms` after a branch or after the sum, `input_norms` for every other."""
    if site.endswith(QK):
        return "qk"
    if FINAL.search(site):
        return "final"
    return "output_norms" if site.endswith(OUTPUT) else "input_norms"


def roles(model: Any) -> list[str]:
    """The role of each parameter of a model, in the order of `model.parameters()`: `matrices` for those of two axes or
    more, the role of its norm for a gain or a shift, and `others` for biases and single numbers outside norms."""
    of_norms = {
        id(parameter): role_of_norm(site.layer)
        for site in model.sites()
        if site.kind == "norm"
        for parameter in site.module.parameters()
    }
    return ["matrices" if p.dim() >= 2 else of_norms.get(id(p), "others") for p in model.parameters()]


def hidden_maps(model: Any) -> set[int]:
    """The ids of the weights of all linear maps but the last, which makes the logits."""
    maps = [site.module for site in model.sites() if site.kind == "linear"]
    output = {id(p) for p in maps[-1].parameters()} if maps else set()
    return {id(p) for layer in maps for p in layer.parameters() if p.dim() >= 2} - output


def parameter_groups(
    model: nn.Module,
    *,
    weight_decay: float,
    decay: str | Mapping[str, bool] = "matrices",
    matrices_apart: bool = False,
) -> list[dict[str, Any]]:
    """Groups for an optimizer, of those parameters that are trained.

    Args:
        weight_decay: of the optimizer. If it is 0, there is one group.
        decay: what decays: `matrices`, parameters of two axes or more; `all`; or for each role whether it does, as
            `settings.decay_of` gives it.
        matrices_apart: also split each group by `muon`: whether it holds weights of hidden maps.
    """
    own = list(model.parameters())
    if isinstance(decay, str):
        decays = [decay == "all" or p.dim() >= 2 for p in own]
    else:
        decays = [decay.get(role, False) for role in roles(model)]
    hidden = hidden_maps(model) if matrices_apart else set()
    rows = [(p, does, id(p) in hidden) for p, does in zip(own, decays, strict=True) if p.requires_grad]
    if not weight_decay or decay == "all":
        groups: list[tuple[dict[str, Any], list]] = [({}, rows)]
    else:
        groups = [
            ({}, [row for row in rows if row[1]]),
            ({"weight_decay": 0.0}, [row for row in rows if not row[1]]),
        ]
    if not matrices_apart:
        return [{"params": [row[0] for row in members], **options} for options, members in groups]
    return [
        {"params": [row[0] for row in members if row[2] == muon], **options, "muon": muon}
        for options, members in groups
        for muon in (True, False)
    ]
