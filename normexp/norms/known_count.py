"""A count on a device whose value the host knows without waiting for the device at every step."""

import torch
from torch import Tensor


class KnownCount:
    """Reads a tensor of one integer, or remembers its value.

    torch counts the changes of a tensor in place (`_version`). The value is read again after a change that `add_one`
    did not make (a checkpoint was loaded, a monitor put the buffer back) and in a copy of the layer.
    """

    def __init__(self) -> None:
        self._known: tuple[Tensor, int, int, int] | None = None  # tensor, its id, its version, its value

    def read(self, count: Tensor) -> int:
        if torch.compiler.is_compiling():
            return int(count)
        value = self._value(count)
        if value is None:
            value = int(count)
            self._known = count, id(count), count._version, value
        return value

    def add_one(self, count: Tensor) -> None:
        if torch.compiler.is_compiling():
            count.add_(1)
            return
        value = self._value(count)
        count.add_(1)
        self._known = None if value is None else (count, id(count), count._version, value + 1)

    def _value(self, count: Tensor) -> int | None:
        if self._known is None:
            return None
        tensor, identity, version, value = self._known
        # In a deep copy of the layer `tensor` is the copy, and `identity` still that of the original.
        return value if tensor is count and identity == id(count) and version == count._version else None
