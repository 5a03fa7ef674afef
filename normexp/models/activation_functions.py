"""Activations as modules, so that monitors can hook them."""

from typing import Literal, get_args

from torch import nn

from normexp.arguments import require_choice

Activation = Literal["relu", "gelu", "tanh", "sigmoid", "identity"]


def make_activation(name: Activation) -> nn.Module:
    """A new module. ``identity`` makes the network linear, as in the theory of deep linear networks."""
    require_choice("activation", name, get_args(Activation))
    modules = {
        "relu": nn.ReLU,
        "gelu": nn.GELU,
        "tanh": nn.Tanh,
        "sigmoid": nn.Sigmoid,
        "identity": nn.Identity,
    }
    return modules[name]()
