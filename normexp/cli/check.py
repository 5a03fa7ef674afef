"""`normexp check my_package:Model --data my_package:loader`: what is wrong with the norms of a network."""

import sys
from pathlib import Path
from typing import Annotated

from normexp.cli.words import Count, Packages, at_least
from normexp.config.process import typed

FOUND = 1  # exit status with --strict


def check(
    network: str = "",
    /,
    *,
    data: str | None = None,
    loss: str | None = None,
    weights: Path | None = None,
    optimizer: str | None = None,
    precision: str | None = None,
    accumulate: Annotated[int | None, at_least(1)] = None,
    devices: Annotated[int | None, at_least(1)] = None,
    averaged: Path | None = None,
    state_dict: Path | None = None,
    steps: Annotated[int | None, at_least(1)] = None,
    samples: Count = 32,
    seed: Annotated[int, at_least(0)] = 0,
    json: bool = False,
    page: Path | None = None,
    strict: bool = False,
    allow_targets: Packages = "",
) -> int:
    """Find what is wrong with the norms of a network, by a few passes. Nothing of it is changed or written.

    - `normexp check my_package:Model --data my_package:loader`
    - `normexp check torchvision.models:resnet18`

    Args:
        network: package:Model or file.py:Model, which is imported and called; or a run's folder
        data: package:loader, package:DataModule, or a shape for random numbers, 32x3x224x224
        loss: package:function(output, target); else guessed from the targets
        weights: a state dict or checkpoint for the network
        optimizer: package:function(network) that makes the optimizer
        precision: of the training: 16-mixed, bf16-mixed, 16-true, ...
        accumulate: batches per step of the optimizer
        devices: processes that train together
        averaged: averaged weights (EMA, SWA)
        state_dict: what you save, such as an adapter
        steps: batches before the first validation
        samples: of a batch that are used
        seed: of the network's weights, the data and every pass
        json: print the findings as JSON
        page: a folder: write the table there as a page
        strict: exit with 1 if there is an error or a warning
    """
    if not network:
        raise ValueError("name one network, such as my_package:Model; --help explains")
    from normexp.check import run
    from normexp.check.inputs import matched, seed_all
    from normexp.check.resolve import data_named, imported, made, network_named, state_named
    from normexp.check.result import show

    seed_all(seed)
    model, own_data = network_named(network)
    if weights:
        tensors = matched(state_named(weights, "--weights"), model)
        if not tensors:
            raise ValueError(f"--weights={weights}: has no tensor of {network}")
        model.load_state_dict(tensors, strict=False)
    result = run.check(
        model,
        data_named(data) if data else own_data,
        loss=imported(loss, "--loss") if loss else None,
        optimizer=made(optimizer, "--optimizer", model) if optimizer else None,
        averaged=state_named(averaged, "--averaged") if averaged else None,
        state_dict=state_named(state_dict, "--state-dict") if state_dict else None,
        precision=precision,
        accumulate=accumulate,
        devices=devices,
        steps=steps,
        samples=samples,
        seed=seed,
    )
    result.name = network
    if json:
        print(result.to_json())
    else:
        show(result)
    if page:
        print(f"page: {result.page(page, made_by=typed(sys.argv))}", file=sys.stderr)
    return FOUND if strict and not result.ok else 0
