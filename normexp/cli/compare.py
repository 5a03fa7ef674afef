"""`normexp compare model=mlp data=digits norms=none,batchnorm`: a fair comparison in one setting, and its page."""

import shlex
import sys
from pathlib import Path

from normexp.compare.asked import DEFAULTS, asked_for, overrides_of, packages
from normexp.config.folder import read_options
from normexp.config.process import command, cut_quietly, fast_imports, one_line_errors, prepare, typed
from normexp.sweeps.places.place import options_of, take_flags

HELP = """Compare norms fairly in one setting of yours: each norm's learning rate is chosen on validation inside each
seed, seeds are added at planned looks until every difference to the first norm is decided, and one page is written.

  {start} model=mlp data=digits norms=none,batchnorm,layernorm
  {start} model=cnn data=cifar10 norms=batchnorm,groupnorm batch_sizes=2,8,32 budget=600
  {start} module=my_package:Net data=digits norms=none,rmsnorm   # your own network; also data=my_package:MyData
  {start} ... --plan                                             # what it would cost; nothing is trained

  norms=none,batchnorm,layernorm  the first is the baseline
  batch_sizes=2,8,32              compared at each; default: that of the configuration
  margin=practical                the smallest difference that matters, fixed before the first run: a share of wrong
                                  answers (0.01 is one point) or nats; practical: 0.3 points up to 3% error, a tenth of
                                  the error up to 10%, then a point
  metric=test/error               or test/loss, the default of texts
  rates=0.001,0.003,0.01          default: the recipe's own times 0.1, 0.3, 1, 3, 10; more where the best is an edge
  seeds=20                        at most; looks at 5, 10, 20, ... seeds share an error rate of 5%
  budget=60                       minutes of one core, after which no further look begins
  name=NAME, out=outputs/compare  the page is out/NAME/index.html, with table.tex, methods.txt and figures as PDF

All other words are those of `{train}` (model.width=64, max_epochs=10, ...), flags those of sweeps (--workers 2)."""


def main(arguments: list[str]) -> int:
    """Compare what the arguments name. Returns the exit status, which is 0 for any result."""
    prepare()
    if not arguments or {"-h", "--help"} & set(arguments):
        with cut_quietly():
            print(HELP.format(start=command("compare"), train=command("train")))
        return 0
    with one_line_errors():
        return run(arguments)


def run(arguments: list[str]) -> int:
    """Train, judge, write the page. Raises ValueError with one line for a mistake."""
    words, flags = take_flags(arguments)
    keys = {f"{key}=" for key in DEFAULTS}
    rest = [word for word in words if f"{word.partition('=')[0]}=" not in keys]
    options = dict(read_options([word for word in words if word not in rest], DEFAULTS))
    from normexp.config.folder import allow_from

    allow_from([f"allow_targets=[{','.join(packages(options, rest))}]"])
    overrides = overrides_of(options, rest)
    with fast_imports():
        from normexp.compare.page import write
        from normexp.compare.run import compare
        from normexp.config.run_spec import specs

    spec, *_ = specs([*overrides, "norm=none"])
    model, data = (spec.choices[group] for group in ("model", "data"))
    options["name"] = options["name"] or f"{options['module'].replace(':', '.') or model}-{data}"
    asked = asked_for(
        options, overrides, recipe=spec.choices["recipe"], text=data in ("text_file", "python_docs"),
        labels={"data": data, "model": model},
    )  # fmt: skip
    out = Path(options["out"]) / options["name"]
    result = compare(asked, out, shlex.join(["normexp", "compare", *arguments]), options_of(flags))
    if result is None:
        return 0
    page = write(result, out, typed(sys.argv))
    from normexp.compare.judged import finding

    print(f"\nseen here ({result.ended}): {finding(result.last, asked.baseline, result.measure)}")
    print(f"page: {page}, with table.tex, methods.txt and figures/*.pdf")
    return 0
