"""`normexp compare model=mlp data=digits norms=none,batchnorm`: a fair comparison in one setting, and its page."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from normexp.cli.words import HERE, POSITIVE, SEVERAL, Engine, Folder, Packages, at_least
from normexp.config.process import fast_imports, typed
from normexp.format import tell


def compare(
    *overrides: str,
    norms: Annotated[tuple[str, ...], SEVERAL] = ("none", "batchnorm", "layernorm"),
    batch_sizes: Annotated[tuple[int, ...] | None, SEVERAL, at_least(1)] = None,
    margin: Annotated[float | Literal["practical"], POSITIVE] = "practical",
    metric: Literal["test/error", "test/loss"] | None = None,
    rates: Annotated[tuple[float, ...] | None, SEVERAL, POSITIVE] = None,
    seeds: Annotated[int, at_least(5)] = 20,
    budget: Annotated[float, POSITIVE] = 60.0,
    name: str = "",
    out: Path = Path("outputs/compare"),
    config_dir: Folder = "",
    allow_targets: Packages = "",
    engine: Engine = HERE,
) -> None:
    """Compare norms fairly in one setting of yours: each norm's learning rate is chosen on validation inside each
    seed, seeds are added at planned looks until every difference to the first norm is decided, and one page is
    written.

    - `normexp compare model=mlp data=digits norms=none,batchnorm,layernorm`
    - `normexp compare model=cnn data=cifar10 norms=batchnorm,groupnorm batch_sizes=2,8,32 budget=600`
    - `normexp compare model=module model.path=my_package.Net allow_targets=my_package`
    - `normexp compare ... --plan`: what it would cost; nothing is trained

    Args:
        overrides: the setting in the words of normexp train (model.width=64, max_epochs=10, ...), and flags of sweeps
            (--workers 2, ...; docs/sweeps.md)
        norms: the first is the baseline
        batch_sizes: compared at each, 2,8,32; default: that of the configuration
        margin: the smallest difference that matters, fixed before the first run: a share of wrong answers (0.01 is
            one point) or nats; practical: 0.3 points up to 3% error, a tenth of the error up to 10%, then a point
        metric: default: test/error, or test/loss for data=python_docs and text_file
        rates: 0.001,0.003,0.01; default: the recipe's own times 0.1, 0.3, 1, 3, 10; more where the best is an edge
        seeds: at most; looks at 5, 10, 20, ... seeds share an error rate of 5%
        budget: minutes of one core, after which no further look begins
        name: the page is out/NAME/index.html, with table.tex, methods.txt and figures as PDF
        out: a folder
    """
    from normexp.compare.design import design_of, overrides_of

    options: dict[str, Any] = {"norms": norms, "batch_sizes": batch_sizes, "margin": margin, "metric": metric}
    options |= {"rates": rates, "seeds": seeds, "budget": budget}
    words = overrides_of(overrides)
    with fast_imports():
        from normexp.compare import run
        from normexp.compare.judged import finding
        from normexp.compare.page import write
        from normexp.config.run_spec import specs

    spec, *_ = specs([*words, "norm=none"])
    model, data = (spec.choices[group] for group in ("model", "data"))
    options["name"] = name or f"{model}-{data}"
    text = data in ("text_file", "python_docs")
    design = design_of(options, words, recipe=spec.choices["recipe"], text=text)
    folder = out / options["name"]
    result = run.compare(design, folder, typed(sys.argv), engine)
    if result is None:
        return
    page = write(result, folder, typed(sys.argv))
    tell(
        f"\nin this setting ({result.ended}): {finding(result.last, design.baseline, design.measure)}\n"
        f"page: {page}, with table.tex, methods.txt and figures/*.pdf"
    )
