"""`normexp check my_package:Model --data my_package:loader`: what is wrong with the norms of a network."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from normexp.cli.words import SEVERAL, Count, Packages, at_least
from normexp.config.process import typed
from normexp.format import pluralize, tell

FOUND = 1  # exit status with --strict or --baseline


def check(
    network: str = "",
    /,
    *,
    data: str | None = None,
    loss: str | None = None,
    weights: Path | None = None,
    optimizer: str | None = None,
    mask: str | None = None,
    causal: bool | None = None,
    precision: str | None = None,
    accumulate: Annotated[int | None, at_least(1)] = None,
    devices: Annotated[int | None, at_least(1)] = None,
    averaged: Path | None = None,
    state_dict: Path | None = None,
    steps: Annotated[int | None, at_least(1)] = None,
    samples: Count = 32,
    seed: Annotated[int, at_least(0)] = 0,
    select: Annotated[tuple[str, ...], SEVERAL] = (),
    ignore: Annotated[tuple[str, ...], SEVERAL] = (),
    baseline: Path | None = None,
    write_baseline: bool = False,
    explain: str | None = None,
    format: Literal["text", "json", "github", "sarif"] = "text",
    json: bool = False,
    page: Path | None = None,
    strict: bool = False,
    allow_targets: Packages = "",
) -> int:
    """Find what is wrong with the norms of a network, by a few passes. Nothing of it is changed or written.

    - `normexp check my_package:Model --data my_package:loader`
    - `normexp check torchvision:resnet18`, `timm:convnext_atto`, `hf:path/to/config.json`

    The keys select, ignore, baseline, format, strict and those of numbers may stand in `[tool.normexp.check]` of
    pyproject.toml.

    Args:
        network: package:Model or file.py:Model, which is imported and called; torchvision:NAME, timm:NAME or
            hf:CONFIG, with random weights; or a run's folder
        data: package:loader, package:DataModule, or a shape for random numbers, 32x3x224x224; two with a
            comma are the training batch and one held out
        loss: package:function(output, target); else guessed from the targets
        weights: a state dict or checkpoint for the network
        optimizer: package:function(network) that makes the optimizer; else a LightningModule's own
        mask: package:function(batch), True at real tokens; else the batch's attention_mask
        causal: an output may not depend on later positions; else as the attention is told
        precision: of the training: 16-mixed, bf16-mixed, 16-true, ...
        accumulate: batches per step of the optimizer
        devices: processes that train together
        averaged: averaged weights (EMA, SWA)
        state_dict: what you save, such as an adapter
        steps: batches before the first validation
        samples: of a batch that are used
        seed: of the network's weights, the data and every pass
        select: findings that are asked, small_batch,eps; else all
        ignore: findings that do not count, or not at some layers, small_batch,eps@stem.*
        baseline: a file of known findings; exit with 1 if there is another error or warning
        write_baseline: write what is found into the file of --baseline
        explain: say what a finding means, and stop
        format: text; json; github, for annotations of a pull request; sarif, for code scanning
        json: short for --format json
        page: a folder: write the findings there as a page
        strict: exit with 1 if there is an error or a warning
    """
    if explain:
        from normexp.check.formats import explained

        tell(explained(explain))
        return 0
    if not network:
        raise ValueError("name one network, such as my_package:Model; --help explains")
    if write_baseline and not baseline:
        raise ValueError("--write-baseline: no file; add --baseline FILE")
    from normexp.check import run
    from normexp.check.formats import FORMATS
    from normexp.check.inputs import matched, seed_all
    from normexp.check.resolve import data_named, imported, made, network_named, source_named, state_named
    from normexp.check.rules import write_baseline as write

    seed_all(seed)
    model, own_data = network_named(network)
    if weights:
        tensors = matched(state_named(weights, "--weights"), model, "--weights")
        if not tensors:
            raise ValueError(f"--weights={weights}: has no tensor of {network}")
        model.load_state_dict(tensors, strict=False)
    result = run.check(
        model,
        data_named(data) if data else own_data,
        loss=imported(loss, "--loss") if loss else None,
        optimizer=made(optimizer, "--optimizer", model) if optimizer else None,
        mask=imported(mask, "--mask") if mask else None,
        averaged=state_named(averaged, "--averaged") if averaged else None,
        state_dict=state_named(state_dict, "--state-dict") if state_dict else None,
        baseline=None if write_baseline else baseline,
        causal=causal, precision=precision, accumulate=accumulate, devices=devices, steps=steps, samples=samples,
        seed=seed, select=select, ignore=ignore,
    )  # fmt: skip
    result.name, result.source = network, source_named(network)
    if write_baseline and baseline:
        write(baseline, result.findings)
        tell(f"baseline: {baseline}: {pluralize(len(result.findings), 'finding')} known from now on")
        return 0
    FORMATS["json" if json else format](result)
    if page:
        print(f"page: {result.page(page, made_by=typed(sys.argv))}", file=sys.stderr)
    return FOUND if (strict or baseline) and not result.ok else 0
