"""Find what is wrong with the norms of a network: `normexp.check(module, loader)`, `normexp check my_package:Model`.

The package is called as a function. What needs torch and Lightning is imported when it is first used.
"""

import importlib
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

    from normexp.check import result, run
    from normexp.check.result import Finding, Result
    from normexp.check.run import CheckNorms

HOMES = {"CheckNorms": "run", "Finding": "result", "Result": "result"}
__all__ = ["CheckNorms", "Finding", "Result"]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{HOMES[name]}"), name)


class Check(types.ModuleType):
    """The package as it is called, for people and for type checkers."""

    if TYPE_CHECKING:
        CheckNorms: type[run.CheckNorms]
        Finding: type[result.Finding]
        Result: type[result.Result]

    def __call__(
        self,
        module: "nn.Module",
        loader: Any = None,
        *,
        loss: "Callable[..., Tensor] | None" = None,
        samples: int = 32,
        select: Sequence[str] = (),
        ignore: Sequence[str] = (),
        baseline: str | Path | None = None,
        optimizer: Any = None,
        precision: str | None = None,
        accumulate: int | None = None,
        devices: int | None = None,
        averaged: Any = None,
        state_dict: Any = None,
        mask: Any = None,
        causal: bool | None = None,
        steps: int | None = None,
        seed: int = 0,
    ) -> "result.Result":
        """Find what is wrong with the norms of a network, by a few passes on a copy of its state.

        Args:
            module: a network, or a LightningModule, whose `training_step` is used.
            loader: a loader, a data module, or one batch: a tensor, (inputs, targets), or a mapping that the network
                takes by name. Without it, random images, rows or tokens are made up.
            loss: `loss(output, target)`. Without it: the loss that the network returns, cross-entropy for targets of
                whole numbers, squared error for targets in the output's shape.
            samples: batches are cut to this many samples.
            select: ids of the findings that are asked; all by default.
            ignore: ids of findings that do not count, everywhere or at some layers: `small_batch@stem.*`.
            baseline: a file of `normexp check --write-baseline`; what it has does not count.
            optimizer: of the training, or several; a LightningModule's own by default.
            precision: of the training: 16-mixed, bf16-mixed, 16-true, ...
            accumulate: batches per step of the optimizer.
            devices: processes that train together, each with a batch of the loader's size.
            averaged: averaged weights (EMA, SWA): a module, or a state dict.
            state_dict: what is saved, such as an adapter's state dict.
            mask: True at real tokens, (N, T); or `mask(batch)`. By default the batch's `attention_mask`.
            causal: whether an output may not depend on later positions. By default what the attention is told.
            steps: batches before the first validation. Known of a DataLoader.
            seed: of every pass, so that an equal network gives equal numbers.

        Returns:
            The findings, worst first: `print(result)`, `result.ok`, `result["small_batch"].fix`, `result.to_json()`.

        Raises:
            ValueError: with one line for an argument that cannot be used, or a network without a norm.
        """
        from normexp.check.run import check

        given = {key: value for key, value in locals().items() if key in OPTIONS}
        return check(module, loader, **given)


SIGNATURE = inspect.signature(Check.__call__)
OPTIONS = [key for key, p in SIGNATURE.parameters.items() if p.kind is p.KEYWORD_ONLY]
sys.modules[__name__].__class__ = Check
__doc__ = (
    f"{__doc__}\nnormexp.check{str(SIGNATURE).replace('self, ', '', 1)}\n\n{inspect.getdoc(Check.__call__)}"
)
