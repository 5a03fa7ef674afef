"""`normexp compare model=mlp data=digits norms=none,batchnorm`: a fair comparison in one setting, and its page."""

import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

from normexp.cli.command import command
from normexp.config.process import fast_imports, typed


@command("compare")
def main(args: SimpleNamespace) -> None:
    """Train, judge, write the page."""
    from normexp.compare.design import design_of, overrides_of, packages
    from normexp.config.folder import allow_from

    options = vars(args)
    allow_from([f"allow_targets=[{','.join(packages(options, args.others))}]"])
    overrides = overrides_of(options, args.others)
    with fast_imports():
        from normexp.compare.judged import finding
        from normexp.compare.page import write
        from normexp.compare.run import compare
        from normexp.config.run_spec import specs

    spec, *_ = specs([*overrides, "norm=none"])
    model, data = (spec.choices[group] for group in ("model", "data"))
    args.name = args.name or f"{args.module.replace(':', '.') or model}-{data}"
    text = data in ("text_file", "python_docs")
    design = design_of(options, overrides, recipe=spec.choices["recipe"], text=text)
    out = Path(args.out) / args.name
    result = compare(design, out, shlex.join(["normexp", "compare", *args.typed]), args.engine)
    if result is None:
        return
    page = write(result, out, typed(sys.argv))
    print(
        f"\nseen here ({result.ended}): {finding(result.last, design.baseline, design.measure)}\n"
        f"page: {page}, with table.tex, methods.txt and figures/*.pdf"
    )
