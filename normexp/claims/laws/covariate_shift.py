"""The effect of one step of gradient descent on later layers: internal covariate shift in two definitions.

The step is taken on a copy of the network, with all weights at once. Its length lowers the loss, to first order, by the
share `step`. So an arm with small gradients does not simply take a small step.
"""

import copy
from typing import Literal

import torch
from torch import Tensor, nn

from normexp.claims.laws.sites import SiteNetwork, labelled, modules_of, observed

Definition = Literal["moments", "gradients"]


def moment_shift(
    network: SiteNetwork, *, seed: int, batch_size: int, lr: float | None = None, step: float = 0.1
) -> float:
    """How far the mean of the last hidden layer's summed inputs moves, in units of their standard deviation over the
    batch (root mean square over units). With `lr`, the step has that learning rate instead of the length `step`.

    The shift of each unit is divided by the unit's own deviation. The monitor `covariate_shift` instead divides the
    norm of all shifts by the norm of all deviations, so units that hardly vary count little there.
    """
    batch, classes = labelled(network, seed, batch_size)
    before = last_summed_inputs(network, batch)
    after = last_summed_inputs(moved(network, batch, classes, lr, step), batch)
    shift = (after.mean(0) - before.mean(0)) / before.std(0, correction=0).clamp_min(1e-12)  # (C,)
    return float(shift.square().mean().sqrt())


def gradient_turn(network: SiteNetwork, *, seed: int, batch_size: int, step: float) -> float:
    """1 - cosine(G, G'), mean over all layers but the first. G is the gradient by a layer's weights. G' is the same on
    the same batch, after all earlier layers took the step (Santurkar et al. 2018, definition 2.1)."""
    batch, classes = labelled(network, seed, batch_size)
    maps = modules_of(network, "linear")
    after = modules_of(moved(network, batch, classes, None, step), "linear")
    before = weight_gradients(network, maps, batch, classes)
    turns = []
    for old, layer, new in zip(before, maps, after, strict=True):
        if layer is not maps[0]:
            (turned,) = weight_gradients(network, [layer], batch, classes)
            turns.append(1 - nn.functional.cosine_similarity(old.flatten(), turned.flatten(), dim=0))
        layer.load_state_dict(new.state_dict())
    return float(torch.stack(turns).mean())


def two_definitions(
    network: SiteNetwork, *, seed: int, batch_size: int, step: float, definition: Definition
) -> float:
    """`moment_shift` for definition `moments`, `gradient_turn` for definition `gradients`."""
    measure = {"moments": moment_shift, "gradients": gradient_turn}[definition]
    return measure(network, seed=seed, batch_size=batch_size, step=step)


def moved(network: SiteNetwork, batch: Tensor, classes: Tensor, lr: float | None, step: float) -> SiteNetwork:
    """A copy of the network after one step of gradient descent."""
    network = copy.deepcopy(network).train()
    parameters = [p for p in network.parameters() if p.requires_grad]
    loss = nn.functional.cross_entropy(network(batch), classes)
    gradients = torch.autograd.grad(loss, parameters)
    if lr is None:
        lr = step * float(loss.detach()) / float(sum(g.square().sum() for g in gradients))
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.sub_(lr * gradient)
    return network


def weight_gradients(
    network: SiteNetwork, maps: list[nn.Module], batch: Tensor, classes: Tensor
) -> list[Tensor]:
    """Gradient of the cross entropy of one batch by the weights of each map, in training mode."""
    loss = nn.functional.cross_entropy(network.train()(batch), classes)
    return list(torch.autograd.grad(loss, [layer.get_parameter("weight") for layer in maps]))


def last_summed_inputs(network: SiteNetwork, batch: Tensor) -> Tensor:
    """(N, C): the output of the last hidden linear map, before norm and activation."""
    return observed(network, batch, "linear")[-2].double()
