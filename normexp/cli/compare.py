"""One setting of yours: `normexp compare model=mlp norms=none,batchnorm` trains a fair comparison and shows it on a
page; `normexp advise model=cnn batch_size=16` says what was measured nearest to a setting."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from normexp.cli.words import HERE, POSITIVE, SEVERAL, Engine, Folder, Packages, at_least
from normexp.config.compose import compose
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
        name: the page is out/NAME/index.html, beside its tables, and its figures as PDF
        out: a folder
    """
    for norm in norms:
        compose([*overrides, f"norm={norm}"])  # a typo is answered before the imports, which take seconds
    from normexp.compare.judged import Design, check_words, finding, planned_looks

    check_words(overrides)
    if len(norms) < 2 or len(set(norms)) < len(norms):
        raise ValueError(
            f"norms={','.join(norms)}: name two or more different ones; the first is the baseline"
        )
    if "/" in name or name == "..":
        raise ValueError(f"name={name}: is a folder of out={out}; leave out slashes")
    with fast_imports():
        from normexp.claims.evidence.rates import rates_around
        from normexp.compare.page import write
        from normexp.compare.run import compare as train_and_compare
        from normexp.config.checks import declared
        from normexp.config.run_spec import specs

    spec, *_ = specs([*overrides, "norm=none"])
    default = "test/loss" if declared(spec.config, "data", "kind") == "text" else "test/error"
    if (metric or default) == "test/error" and isinstance(margin, float) and margin >= 1:
        raise ValueError(
            f"margin={margin:g}: is a share of wrong answers, below 1; {margin / 100:g} is {margin:g} points"
        )
    design = Design(
        name=name or f"{spec.choices['model']}-{spec.choices['data']}",
        norms=norms,
        levels=tuple(dict.fromkeys(batch_sizes or ("",))),
        rates=tuple(sorted(set(rates or rates_around(spec.config["lr"])))),
        margin=margin,
        measure=(metric or default).removeprefix("test/"),
        looks=planned_looks(seeds),
        budget=budget,
        words=tuple(dict.fromkeys((f"recipe={spec.choices['recipe']}", *overrides))),
    )
    result = train_and_compare(design, out / design.name, typed(sys.argv), engine)
    if result:
        page = write(result, out / design.name, typed(sys.argv))
        text = finding(result.last, design.baseline, design.measure)
        tell(f"\nIn this setting: {text} It ended because {result.ended}.\npage: {page}")


def advise(*overrides: str, bank: str = "drawn", evidence: Path | None = None) -> None:
    """What was measured nearest to your own setting: the settings of a bank with their numbers and distance, what was
    not measured, and the findings and answers that cover yours. Nothing is forecast.

    - `normexp advise model=cnn batch_size=16 max_steps=2000`
    - `normexp advise bank=mine.yaml evidence=DIR model=mlp`

    Args:
        overrides: your setting, in the words of normexp train
        bank: a name, or a file of your own
        evidence: a folder of kept runs; by default that of the package
    """
    from normexp.advise import advice
    from normexp.advise.nearest import measured
    from normexp.claims.evidence.table import EVIDENCE
    from normexp.claims.spec.bank import load_bank

    if norm := next((word for word in overrides if word.startswith("norm=")), ""):
        raise ValueError(f"{norm}: every norm of the bank is compared; leave it out")
    if not overrides:
        raise ValueError("name your setting, such as model=cnn batch_size=16 max_steps=2000; --help explains")
    known = load_bank(bank)
    settings = measured(known, evidence or EVIDENCE) if known.drawn else []
    tell(advice.advice(settings, known.norms, advice.labels_of_own(overrides), known.name))
