"""The memory that a model's weights would take, known before any is spent."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from normexp.cores import in_bytes, memory

SMALL_BYTES, SMALL_TENSORS = 2**28, 2000  # a model below both is built without a check
MOST_TENSORS = 50_000  # takes a minute to build; a network of 10,000 layers has some 40,000
COPIES = 3  # weights, gradients, and at least as much for the optimizer


class _TooLarge(Exception):
    def __init__(self, tensors: int, nbytes: int):
        super().__init__()
        self.tensors, self.nbytes = tensors, nbytes


def build_within_memory(make: Callable[[], nn.Module], options: dict[str, Any]) -> nn.Module:
    """The model that `make` builds. A model that is not small is first built on the meta device, where tensors have
    shapes but no content. This stops as soon as the model is known to be too large.

    Args:
        make: builds the same model at each call, whatever random numbers were drawn before.
        options: of the model, for messages.

    Raises ValueError with one line for a model that memory cannot hold or that would take minutes to build.
    """
    with contextlib.suppress(_TooLarge), _at_most(SMALL_TENSORS, SMALL_BYTES):
        return make()
    most = memory()
    try:
        with torch.device("meta"), warnings.catch_warnings(), _at_most(MOST_TENSORS, most // COPIES):
            warnings.simplefilter("ignore")
            make()
    except _TooLarge as large:
        why = f"would take {in_bytes(COPIES * large.nbytes)} or more, and this machine has {in_bytes(most)}"
        if large.tensors > MOST_TENSORS:
            why = f"has more than {MOST_TENSORS:,} weight tensors and would take minutes to build"
        raise ValueError(f"{_largest(options)}: {why}; choose fewer or smaller layers") from None
    except RuntimeError as error:
        if "overflow" in str(error).lower():
            raise ValueError(f"{_largest(options)}: larger than any memory; choose smaller layers") from None
        # Otherwise it is a user's model that computes while it is built. Then only building it shows its size.
    return make()


@contextlib.contextmanager
def _at_most(tensors: int, nbytes: int) -> Iterator[None]:
    """Inside this context, a module with more weights than that raises _TooLarge before they are filled."""
    seen = [0, 0]

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        if parameter is not None and not is_lazy(parameter):  # a lazy one has no size before the first input
            seen[0] += 1
            seen[1] += parameter.numel() * parameter.element_size()
            if seen[0] > tensors or seen[1] > nbytes:
                raise _TooLarge(*seen)

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    except RuntimeError as error:  # no tensor can have this size
        if tensors == SMALL_TENSORS and any(word in str(error) for word in ("allocate", "overflow")):
            raise _TooLarge(*seen) from None
        raise
    finally:
        hook.remove()


def _largest(options: dict[str, Any]) -> str:
    """The two options that make the model large, as overrides."""
    sizes = {}
    for key, value in options.items():
        numbers = [item for item in (value if isinstance(value, list) else [value]) if type(item) is int]
        if numbers:
            sizes[key] = max(numbers)
    named = sorted(sizes, key=lambda key: -sizes[key])[:2]
    return " ".join(f"model.{key}={options[key]}".replace(", ", ",") for key in named) or "model"
