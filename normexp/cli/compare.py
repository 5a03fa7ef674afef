"""A decision of yours: `normexp compare results.csv` judges results that exist; `normexp compare my.py:train` and
`normexp compare model=mlp norms=none,batchnorm` train a fair comparison; each shows it on a page. `normexp advise
model=cnn batch_size=16` says what was measured nearest to a setting."""

import dataclasses
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from normexp.cli.words import AT_LEAST_0, FINITE, HERE, POSITIVE, SEVERAL, Engine, Folder, Packages, at_least
from normexp.config.options import require_once, with_several_values
from normexp.config.process import fast_imports, typed
from normexp.format import printable, tell

if TYPE_CHECKING:
    from normexp.compare.answer import Answer


def compare(
    *words: str,
    arms: Annotated[tuple[str, ...], SEVERAL] = (),
    norms: Annotated[tuple[str, ...], SEVERAL] = (),
    margin: Annotated[float | Literal["practical"], AT_LEAST_0] | None = None,
    metric: str | None = None,
    better: Literal["higher", "lower"] | None = None,
    batch_sizes: Annotated[tuple[int, ...] | None, at_least(1), SEVERAL] = None,
    rates: Annotated[tuple[float, ...] | None, SEVERAL, POSITIVE] = None,
    seeds: Annotated[int, at_least(5)] = 20,
    budget: Annotated[float, POSITIVE] = 60.0,
    version: str = "",
    arm: str | None = None,
    value: str | None = None,
    seed: str | None = None,
    setting: str | None = None,
    tune: str | None = None,
    per_example: Path | None = None,
    guess: Annotated[float, FINITE] | None = None,
    spread: Annotated[float, POSITIVE] | None = None,
    paired: bool = True,
    looks: Annotated[int, at_least(1)] = 1,
    name: str = "",
    out: Path = Path("outputs/compare"),
    config_dir: Folder = "",
    allow_targets: Packages = "",
    engine: Engine = HERE,
) -> None:
    """Decide between norms, or anything else, by an interval over seeds and a margin that was fixed beforehand: from
    results that exist, from a training of your own, or from a network of normexp. One page is written.

    - `normexp compare results.csv arm=norm value=mAP seed=seed margin=0.3 setting=dataset`: results that exist
    - `normexp compare none:78 batchnorm:78.2 better=higher margin=0.3`: numbers in hand
    - `normexp compare my.py:train arms=none,batchnorm rates=0.001,0.01 metric=test better=higher margin=0.01`
    - `normexp compare model=mlp data=digits norms=none,batchnorm,layernorm`
    - `normexp compare ... --plan`: what a training would cost; nothing is trained

    A training chooses each arm's learning rate on validation inside each seed, and adds seeds at planned looks until
    every difference to the first arm is decided.

    Args:
        words: a csv, parquet or json file, an export of W&B or MLflow, or a folder of runs; or numbers, arm:1,2,3; or
            file.py:function, with more arguments as key=value; or the words of normexp train (model.width=64,
            max_epochs=10, ...). Flags of sweeps (--workers 2, ...; docs/sweeps.md)
        arms: what is compared, the baseline first; default of results: all, none first
        norms: the same; default of a network of normexp: none,batchnorm,layernorm
        margin: the smallest difference that matters, in the unit of the metric. Practical, for test/error and
            test/loss: 0.3 points up to 3% error, a tenth of the error up to 10%, then a point; 0.02 nats
        metric: what a training logs or returns; default: test, or test/error, or test/loss for texts
        better: higher or lower, where the metric's name does not say it
        batch_sizes: a network of normexp is compared at each, 2,8,32; default: that of the configuration
        rates: 0.001,0.003,0.01; default: the recipe's own times 0.1, 0.3, 1, 3, 10; more where the best is an edge. A
            function's are chosen by val, which is better in the way of its metric
        seeds: at most; looks at 5, 10, 20, ... seeds share an error rate of 5%
        budget: minutes of one core, after which no further look begins
        version: of a function of yours; another one trains anew
        arm: of results, the column of what is compared; default: arm, or norm
        value: of results, the column of the metric
        seed: of results, the column that pairs runs; default: seed
        setting: of results, columns that tell settings apart, dataset,depth
        tune: of results, a column of validation by which each arm and seed takes its best run
        per_example: of results, a table of single test examples: arm, seed, example and value
        guess: what a failed run counts as; default: it is left out, and counted
        spread: standard deviation over seeds, where too few values say it; default: the margin
        paired: false: equal seeds do not pair
        looks: how often you look at results: 2 if you add seeds once
        name: the page is out/NAME/index.html, beside its tables, and its figures as PDF
        out: a folder
    """
    require_once(words)
    if all("=" in word for word in words):
        if several := with_several_values(words):
            raise ValueError(
                f"{several[0]}: a key has one value; norms=, batch_sizes= and rates= have several, and numbers in hand"
                " are a:78,79 b:79,80"
            )
        from normexp.config.compose import compose

        for norm in norms or ("none",):  # a typo is answered before the imports, which take seconds
            compose([*words, "monitor=none", f"norm={norm}"])
    from normexp.compare.read import kind_of

    if "/" in name or name == "..":
        raise ValueError(f"name={name}: is a folder of out={out}; leave out slashes")
    if arms and norms:
        raise ValueError(f"norms={','.join(norms)}: is another word for arms; write one of them")
    key, arms = ("norms", norms) if norms else ("arms", arms)
    if len(arms) == 1 or len(set(arms)) < len(arms):
        raise ValueError(
            f"{key}={','.join(arms)}: name two or more different ones; the first is the baseline"
        )
    of_results: dict[str, Any] = {
        "arm": arm, "value": value, "seed": seed, "setting": setting, "tune": tune, "per_example": per_example,
    }  # fmt: skip
    judging: dict[str, Any] = {"spread": spread, "looks": looks - 1, "paired": not paired}
    training_alone: dict[str, Any] = {"rates": rates, "batch_sizes": batch_sizes, "version": version}
    from normexp.compare.answer import own_folder

    kind = kind_of(words, inspect.signature(compare).parameters)
    if kind in ("numbers", "file"):
        from normexp.compare.results import compare as judge

        for key, given in training_alone.items():
            if given:
                raise ValueError(f"{key}: is for a training; leave it out")
        source: Any = words if kind == "numbers" else words[0]
        asked: Any = {"paired": paired, "arms": arms, "guess": guess, "spread": spread or 0.0, "looks": looks}
        columns = of_results | {"value": value or metric}
        answer = judge(source, better=better, margin=margin, name=name, **asked, **columns)
        judged, examples = answer.look.design, per_example and str(per_example)
        # In this order, as older notes have no keys.
        known = {
            "source": words if kind == "numbers" else str(Path(words[0]).resolve()), "value": judged.metric.name,
            "higher": judged.metric.higher, "margin": judged.margin, "setting": setting, "tune": tune,
            "per_example": examples, **asked, "arm": arm, "seed": seed,
        }  # fmt: skip
        show(answer, own_folder(out, judged.name, known))
        return
    for key, given in of_results.items():
        if given is not None:
            raise ValueError(f"{key}={given}: is a column of results; name their file first, or leave it out")
    for key, given in judging.items():
        if given:
            raise ValueError(f"{key}: is for results that exist; name their file first, or leave it out")
    with fast_imports():
        from normexp.compare.judged import planned_looks
        from normexp.compare.run import compare as train
        from normexp.compare.training import of_function, of_model

    of_user = kind == "function"
    if version and not of_user:
        raise ValueError(f"version={version}: is of a function of yours; leave it out")
    design, training = (of_function if of_user else of_model)(
        words, arms=arms, metric=metric, better=better, margin=margin, batch_sizes=batch_sizes or (), rates=rates or (),
        guess=guess, name=name, out=out, looks=planned_looks(seeds), budget=budget,
        **{"version": version} if of_user else {},
    )  # fmt: skip
    if found := train(design, training, out / design.name, typed(sys.argv), engine):
        known = dataclasses.asdict(design) | {"name": "", "budget": 0.0}
        tell("", "In this setting:")
        show(found, own_folder(out, design.name, known))


def show(answer: "Answer", folder: Path) -> None:
    """Print an answer at once, and then write its page into a folder."""
    tell(printable(str(answer)))
    tell(f"page: {answer.page(folder, typed(sys.argv))}")


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

    require_once(overrides)
    if norm := next((word for word in overrides if word.startswith("norm=")), ""):
        raise ValueError(f"{norm}: every norm of the bank is compared; leave it out")
    if not overrides:
        raise ValueError("name your setting, such as model=cnn batch_size=16 max_steps=2000; --help explains")
    labels, known = advice.labels_of_own(overrides), load_bank(bank)  # a mistake is answered before reading
    settings = measured(known, evidence or EVIDENCE) if known.drawn else []
    tell(advice.advice(settings, known.norms, labels, known.name, advice.unread(overrides)))
