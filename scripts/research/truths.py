"""Whether a warning of `normexp check` is true, by a rule for each kind that asks the network again with own hooks.

What has no rule here counts as false. None of this uses what the check measured, but the layers that it names.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from normexp.check.result import Finding
from normexp.monitors.batches import Step, called_with, leading_size, rows_of

BATCHES = 6  # fresh ones, for rules about losses


def loss(model: nn.Module, batch: Any) -> Tensor:
    return Step(model, probe=True).training_step(batch)["loss"]


@contextlib.contextmanager
def inputs_of(model: nn.Module, paths: tuple[str, ...]) -> Iterator[dict[str, list]]:
    """path -> (input, output) of each call of the layers, in this context. `a:F.layer_norm` is listened to at a."""
    seen: dict[str, list] = {path: [] for path in paths}
    modules, handles = dict(model.named_modules()), []
    for path in paths:
        layer = modules.get(path.partition(":")[0])
        if layer is not None:
            handles.append(
                layer.register_forward_hook(
                    lambda m, a, out, p=path: seen[p].append((a[0] if a else None, out))
                )
            )
    yield seen
    for handle in handles:
        handle.remove()


def calls(
    model: nn.Module, batch: Any, finding: Finding, *, train: bool = True, autocast: bool = False
) -> list[tuple]:
    """(path, layer, input, output) of each call of the layers that a finding names; buffers stay."""
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    model.train(train)
    paths = tuple(path for path in finding.layers if ":" not in path)
    with (
        inputs_of(model, paths) as seen,
        torch.no_grad(),
        torch.autocast("cpu", torch.bfloat16, enabled=autocast),
    ):
        loss(model, batch)
    model.load_state_dict(kept)
    model.train()
    return [
        (p, model.get_submodule(p), x, y)
        for p, all_ in seen.items()
        for x, y in all_
        if isinstance(x, Tensor)
    ]


def spread(layer: nn.Module, x: Tensor) -> Tensor:
    """The variance that a norm sees, one for each of its statistics; the mean square for a norm without a mean."""
    name = type(layer).__name__.lower()
    if "batch" in name:
        rows = x.float().movedim(1, 0).flatten(1)
    elif "instance" in name:
        rows = x.float().flatten(0, 1).flatten(1)
    elif "group" in name:
        rows = x.float().reshape(len(x) * layer.num_groups, -1)
    else:
        last = x.movedim(1, -1) if name.endswith("2d") else x
        shape = getattr(layer, "normalized_shape", (0,))
        rows = last.float().flatten(-len(shape)).flatten(0, -2) if last.dim() > 1 else last.float()[None]
    return rows.square().mean(1) if "rms" in name else rows.var(1, correction=0)


def eps_of(layer: nn.Module) -> float:
    return next(
        float(v) for n in ("eps", "variance_epsilon", "epsilon") if (v := getattr(layer, n, None)) is not None
    )


def mode_gap(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """On fresh batches, too, the loss in eval mode is more than a tenth above that with the batches' statistics."""
    kept, losses = (
        {name: value.clone() for name, value in model.state_dict().items()},
        {True: 0.0, False: 0.0},
    )
    for _ in range(BATCHES):
        batch = make()
        for by_batch in losses:
            model.eval()
            for m in model.modules():
                if by_batch and getattr(m, "running_mean", None) is not None:
                    m.train()
            with torch.no_grad():
                losses[by_batch] += float(loss(model, batch)) / BATCHES
            model.load_state_dict(kept)
    model.train()
    return losses[False] > 1.1 * losses[True]


def statistics_cold(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """(1 - momentum)^steps is above a twentieth for each layer that is named."""
    rates = [model.get_submodule(path).momentum for path in finding.layers]
    return all(rate is not None and (1 - rate) ** options["steps"] > 0.05 for rate in rates)


def eps(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """In one of the layers the median variance above 0 is below eps."""
    for _, layer, x, _ in calls(model, batches[0], finding):
        alive = spread(layer, x)
        if len(alive := alive[alive > 0]) and float(alive.median()) < eps_of(layer):
            return True
    return False


def constant_channels(
    finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict
) -> bool:
    """In one of the layers a twentieth of the statistics are of constant values, and they are not padding."""
    return any(
        float((spread(m, x) < 1e-10).float().mean()) >= 0.05
        for _, m, x, _ in calls(model, batches[0], finding)
    )


def one_value(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """The output of a layer takes two sizes at most, whatever arrives: |y| is the same at other inputs."""
    for _, layer, x, y in calls(model, batches[0], finding):
        other = torch.randn_like(x) * (1 + x.float().std()).to(x.dtype)
        with torch.no_grad():
            away = (
                layer(other).float().abs() - y.float().abs()
            ).abs().mean() / y.float().abs().mean().clamp_min(1e-6)
        if float(away) < 0.05:
            return True
    return False


def overflow(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """In half precision a layer's output is not finite, or a row of it is 0, where it is not in float32."""
    half = calls(model, batches[0], finding, autocast=True)
    for (_, _, x, y), (_, _, _, wide) in zip(half, calls(model, batches[0], finding), strict=False):
        lost = ~y.isfinite() | ((y == 0).all(-1, keepdim=True) & ~(wide == 0).all(-1, keepdim=True))
        if bool(lost.any()) or float(x.abs().max()) > torch.finfo(torch.bfloat16).max / 4:
            return True
    return False


def nothing_learns(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """No parameter of the layers gets a gradient in a pass."""
    model.train()
    model.zero_grad()
    loss(model, batches[0]).backward()
    with_gradient = {name for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return not any(name.startswith(f"{path}.") for path in finding.layers for name in with_gradient)


def dropout_before_batchnorm(
    finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict
) -> bool:
    """The variance of a layer's input is 1.2 times as large, in the median channel, with dropout as without."""
    drops = [m for m in model.modules() if "drop" in type(m).__name__.lower()]
    rates = [m.p if hasattr(m, "p") else m.drop_prob for m in drops]
    noisy = [calls(model, batches[0], finding) for _ in range(8)]
    for m in drops:
        setattr(m, "p" if hasattr(m, "p") else "drop_prob", 0.0)
    still = calls(model, batches[0], finding)
    for m, rate in zip(drops, rates, strict=True):
        setattr(m, "p" if hasattr(m, "p") else "drop_prob", rate)
    for k, (_, layer, x, _) in enumerate(still):
        with_drop = torch.stack([spread(layer, run[k][2]) for run in noisy]).mean(0)
        if float((with_drop / spread(layer, x).clamp_min(1e-12)).median()) > 1.2:
            return True
    return False


def types(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """A layer gives another type than it gets, outside autocast."""
    return any(y.dtype != x.dtype for _, _, x, y in calls(model, batches[0], finding))


def batch_in_eval(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """In eval mode the output for the first half of a batch is another without the second half."""
    half = rows_of(batches[0], 0, leading_size(batches[0]) // 2)
    model.eval()
    with torch.no_grad():
        whole, part = (first(called_with(model, batch)[0]) for batch in (batches[0], half))
    model.train()
    return float((whole[: len(part)] - part).norm() / part.norm()) > 1e-3


def first(output: Any) -> Tensor:
    while not isinstance(output, Tensor):
        output = next(iter(output.values() if hasattr(output, "values") else output))
    return output


def momentum(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """Torch's momentum of each layer is 0 or above one half."""
    return all(
        model.get_submodule(p).momentum == 0 or model.get_submodule(p).momentum > 0.5 for p in finding.layers
    )


def small_batch(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """A batch has fewer than 8 samples; here none has."""
    return False


def pass_fails(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool:
    """An own training pass fails, too."""
    try:
        loss(model.train(), batches[0]).backward()
    except Exception:
        return True
    return False


RULES = {
    rule.__name__: rule
    for rule in (
        mode_gap, statistics_cold, eps, constant_channels, one_value, overflow, nothing_learns, pass_fails, momentum,
        dropout_before_batchnorm, types, batch_in_eval, small_batch,
    )
}  # fmt: skip


def is_true(finding: Finding, model: nn.Module, batches: list, make: Callable, options: dict) -> bool | str:
    """What the rule of a finding's kind says; why it could not be asked."""
    if finding.id not in RULES:
        return "no rule"
    try:
        return bool(RULES[finding.id](finding, model, batches, make, options))
    except Exception as error:
        return f"rule fails: {type(error).__name__}: {error}"
