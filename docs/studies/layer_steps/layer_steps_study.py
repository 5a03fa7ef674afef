"""Which layers' steps? Optimizers that treat the layers of a network apart, by one constant factor each or by Adam."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer

Part = Literal["all", "first half", "last half"]


def chosen(groups: list[dict[str, Any]], part: Part) -> list[dict[str, Any]]:
    """The groups of these layers. Of 9 linear maps the first half are maps 1 to 4, the last half maps 5 to 9."""
    last = max(group["layer"] for group in groups)
    half = last // 2
    inside = {"all": (1, last), "first half": (1, half), "last half": (half + 1, last)}[part]
    return [group for group in groups if inside[0] <= group["layer"] <= inside[1]]


def norm_of(groups: Iterable[dict[str, Any]]) -> Tensor:
    """The length of the gradient of these groups."""
    return torch.nn.utils.get_total_norm(
        [p.grad for group in groups for p in group["params"] if p.grad is not None]
    )


class EqualGradients(SGD):
    """SGD with a constant factor a layer: g / g_k for layers of `part`, 1 for others. g_k is the length of layer k's
    gradient at the first step, g that of the last layer. So in the first step the layers of `part` move as far as the
    last one, and a layer's later steps follow its own gradient."""

    takes_layers_apart = True

    def __init__(self, params: Iterable[Any], lr: float = 0.1, momentum: float = 0.9, part: Part = "all", *,
                 fused: bool | None = None) -> None:  # fmt: skip
        super().__init__(params, lr=lr, momentum=momentum, fused=fused)
        self.part = part

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters once."""
        groups = self.param_groups
        if "factor" not in groups[0]:
            last = norm_of([max(groups, key=lambda group: group["layer"])])
            for group in groups:
                own = any(group is other for other in chosen(groups, self.part))
                group["factor"] = float(last / norm_of([group]).clamp(min=1e-30)) if own else 1.0
        for group in groups:
            for parameter in group["params"]:
                parameter.grad.mul_(group["factor"])
        return super().step(closure)


class NormalizedSGD(SGD):
    """SGD along the gradient of the whole network, divided by its length at every step."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters once."""
        gradients = [p.grad for group in self.param_groups for p in group["params"]]
        torch._foreach_div_(gradients, torch.nn.utils.get_total_norm(gradients).clamp(min=1e-30))
        return super().step(closure)


class AdamPart(Optimizer):
    """AdamW (without decay) at `ratio` times the rate for the layers of `part`, SGD for the others. A hundredth is what
    lies between the rates at which the two train shallow networks."""

    takes_layers_apart = True

    def __init__(self, params: Iterable[Any], lr: float = 0.1, momentum: float = 0.9, part: Part = "all",
                 ratio: float = 0.01) -> None:  # fmt: skip
        super().__init__(params, {"lr": lr, "momentum": momentum})
        own = chosen(self.param_groups, part)
        for group in self.param_groups:
            adam = any(group is other for other in own)
            group |= {"adam": adam} | ({"lr": lr * ratio} if adam else {})
        self.parts = self.made()

    def made(self) -> list[Optimizer]:
        """The two optimizers, over the groups and the state of this one."""
        adam, sgd = ([g for g in self.param_groups if g["adam"] is wanted] for wanted in (True, False))
        parts: list[Optimizer] = [AdamW(adam, weight_decay=0.0)] if adam else []
        parts += [SGD(sgd)] if sgd else []
        for part, groups in zip(parts, filter(None, (adam, sgd)), strict=True):
            for group, full in zip(groups, part.param_groups, strict=True):
                group.update({key: value for key, value in full.items() if key not in group})
        return parts

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters once."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        adam, sgd = ([g for g in self.param_groups if g["adam"] is wanted] for wanted in (True, False))
        for part, groups in zip(self.parts, filter(None, (adam, sgd)), strict=True):
            part.param_groups, part.state = groups, self.state  # a checkpoint replaces both
            part.step()
        return loss
