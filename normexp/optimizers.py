"""Muon, an optimizer that torch lacks for whole networks, and the groups of parameters that every optimizer gets."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from normexp.format import require_at_least, require_choice

QUINTIC = (3.4445, -4.7750, 2.0315)
TINY = 1e-7  # keeps the first division finite
Precision = Literal["bfloat16", "float32"]


def orthogonalized(matrix: Tensor, steps: int, precision: Precision = "bfloat16") -> Tensor:
    """About U V^T for a matrix U S V^T, in `precision`: `steps` times X <- a X + (b A + c A^2) X with A = X X^T, from X
    of Frobenius norm 1. Its singular values come out between 0.7 and 1.2, not 1."""
    a, b, c = QUINTIC
    wide = matrix.shape[0] <= matrix.shape[1]
    x = matrix.to(getattr(torch, precision), copy=True)
    x = x if wide else x.T
    x.div_(x.norm().clamp(min=TINY))
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if wide else x.T


class Muon(Optimizer):
    """Muon for matrices and AdamW for all other parameters, in one step.

    A matrix W (A, B) with gradient G and momentum m:
        M <- m M + (1 - m) G,   U = m M + (1 - m) G with `nesterov`, else M,
        W <- (1 - lr weight_decay) W - lr s orthogonalized(U),
    with s = 0.2 sqrt(max(A, B)) for `match_rms_adamw`, so that an update is as large as AdamW's and its rates serve, or
    s = sqrt(max(1, A / B)) for `original`. The filters of a convolution (C', C, kh, kw) are the matrix (C', C kh kw).
    Sources: Jordan et al. 2024, Muon; Liu et al. 2025, Muon is Scalable for LLM Training, arXiv:2502.16982. On matrices
    the step is that of `torch.optim.Muon`, bit for bit; that class refuses all other parameters.

    Bits: by default the orthogonalization multiplies in bfloat16, whose last bit is 65,536 times as coarse as that of
    float32. On one machine, runs are equal bit for bit, also when they resume. A GPU, or a CPU with other instructions
    for bfloat16, gives other bits: one that was held to AVX2 gave matrices that differ in the third digit.

    Args:
        params: parameters, or groups. A group may say `muon`: true for matrices, false for AdamW. One that does not is
            split: parameters of two axes or more are matrices.
        betas, eps: of AdamW.
        weight_decay: of both, times the rate.
        steps: of the orthogonalization.
        precision: of the orthogonalization. A CPU without instructions for bfloat16 takes sixty times as long in it.
        fused: for AdamW, as in torch.

    Raises:
        ValueError: a momentum outside [0, 1), no step of the orthogonalization, an unknown scale or precision.
    """

    takes_matrices_apart = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
        nesterov: bool = True,
        steps: int = 5,
        scale: Literal["match_rms_adamw", "original"] = "match_rms_adamw",
        precision: Precision = "bfloat16",
        fused: bool | None = None,
    ) -> None:
        if not 0 <= momentum < 1:
            raise ValueError(
                f"momentum={momentum}: the part of the old momentum that is kept; use 0 to below 1"
            )
        require_at_least("steps", steps, 1)
        require_choice("scale", scale, ("match_rms_adamw", "original"))
        require_choice("precision", precision, get_args(Precision))
        self.precision = precision
        given = list(params)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        options = {"momentum": momentum, "nesterov": nesterov, "steps": steps, "scale": scale}
        usual: dict[str, Any] = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__([part for group in groups for part in _split(group)], {**usual, **options})
        # fills in what else its groups need
        self.adamw = AdamW([*self.rest(), {"params": []}], fused=fused, **usual)

    def rest(self) -> list[dict[str, Any]]:
        """The groups that AdamW updates."""
        return [group for group in self.param_groups if not group["muon"]]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters once."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"] if group["muon"] else ():
                if parameter.grad is not None:
                    self.update(parameter, parameter.grad, group)
        self.adamw.param_groups, self.adamw.state = self.rest(), self.state  # a checkpoint replaces both
        self.adamw.step()
        return loss

    def update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        """A step of one matrix."""
        state, momentum = self.state[parameter], group["momentum"]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter)
        mean = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        direction = (gradient.lerp(mean, momentum) if group["nesterov"] else mean).flatten(1)
        rows, columns = direction.shape
        original = group["scale"] == "original"
        scale = math.sqrt(max(1, rows / columns)) if original else 0.2 * math.sqrt(max(rows, columns))
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        turned = orthogonalized(direction, group["steps"], self.precision).reshape(parameter.shape)
        parameter.add_(turned, alpha=-group["lr"] * scale)


def _split(group: dict[str, Any]) -> list[dict[str, Any]]:
    """A group as it is if it says `muon`, else its matrices and its other parameters."""
    if "muon" in group:
        return [dict(group)]
    members = group["params"]
    members = [members] if isinstance(members, Tensor) else list(members)
    return [
        {**group, "params": [p for p in members if (p.dim() >= 2) == muon], "muon": muon}
        for muon in (True, False)
    ]


# Groups: which parameters decay, and which matrices Muon updates.


def hidden_maps(model: Any) -> set[int]:
    """The ids of the weights of all linear maps but the last, which makes the logits."""
    maps = [site.module for site in model.sites() if site.kind == "linear"]
    output = {id(p) for p in maps[-1].parameters()} if maps else set()
    return {id(p) for layer in maps for p in layer.parameters() if p.dim() >= 2} - output


def layer_numbers(model: Any) -> dict[int, int]:
    """The number of the linear map, from 1 in forward order, of each parameter by its id; the parameters of a norm or
    an activation count with the map before it. Parameters of no site have none."""
    numbers: dict[int, int] = {}
    layer = 0
    for site in model.sites():
        layer += site.kind == "linear"
        for parameter in site.module.parameters():
            numbers.setdefault(id(parameter), max(1, layer))
    return numbers


def parameter_groups(
    model: nn.Module,
    *,
    weight_decay: float,
    decay: Literal["matrices", "all"] = "matrices",
    matrices_apart: bool = False,
    layers_apart: bool = False,
) -> list[dict[str, Any]]:
    """Groups for an optimizer, of those parameters that are trained.

    Args:
        weight_decay: of the optimizer. If it is 0, there is one group.
        decay: what decays: `matrices`, parameters of two axes or more, or `all`.
        matrices_apart: also split each group by `muon`: whether it holds weights of hidden maps.
        layers_apart: also split each group by `layer`, the number of its linear map (see `layer_numbers`), so that an
            optimizer may treat layers differently; 0: parameters of no site.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [{"params": trained}]
    if weight_decay and decay == "matrices":
        groups = [
            {"params": [p for p in trained if p.dim() >= 2]},
            {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
        ]
    if layers_apart:
        numbers = layer_numbers(model)
        groups = [
            {**group, "params": members, "layer": layer}
            for group in groups
            for layer in sorted({numbers.get(id(p), 0) for p in group["params"]})
            if (members := [p for p in group["params"] if numbers.get(id(p), 0) == layer])
        ]
    if not matrices_apart:
        return groups
    hidden = hidden_maps(model)
    return [
        {**group, "params": [p for p in group["params"] if (id(p) in hidden) == muon], "muon": muon}
        for group in groups
        for muon in (True, False)
    ]
