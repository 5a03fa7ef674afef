"""`normexp check my_package:Model --data my_package:loader`: what is wrong with the norms of a network."""

import argparse
import sys
from pathlib import Path

from normexp.config.process import command, one_line_errors, prepare, program, typed

FOUND = 1  # exit status with --strict
PLAIN = ("precision", "accumulate", "devices", "converted_from", "steps", "samples")  # options as they are


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the command line. Argparse ends the process for an unknown one."""
    parser = argparse.ArgumentParser(
        prog=program("check"),
        description="Find what is wrong with the norms of a network, by a few passes. Nothing of it is changed or "
        f"written: `{command('check')} my_package:Model --data my_package:loader`",
    )
    add = parser.add_argument
    add(
        "model",
        help="package:Model (imported, and called), a name of torchvision, timm:NAME, or a run's folder",
    )
    add("--data", help="package:loader, package:DataModule, or a shape for random numbers, 32x3x224x224")
    add("--loss", help="package:function(output, target); else guessed from the targets")
    add("--weights", type=Path, metavar="FILE", help="a state dict or checkpoint for the network")
    add("--optimizer", help="package:function(network) that makes the optimizer")
    add("--precision", help="of the training: 16-mixed, bf16-mixed, 16-true, ...")
    add("--accumulate", type=int, help="batches per step of the optimizer")
    add("--devices", type=int, help="processes that train together")
    add("--averaged", type=Path, metavar="FILE", help="averaged weights (EMA, SWA)")
    add("--state-dict", type=Path, metavar="FILE", help="what you save, such as an adapter")
    add("--converted-from", help="keras, tensorflow, jax or flax")
    add("--steps", type=int, help="batches before the first validation")
    add("--samples", type=int, default=32, help="of a batch that are used (default: %(default)s)")
    add("--json", action="store_true", help="print the findings as JSON")
    add("--page", type=Path, metavar="FOLDER", help="write a page with two figures there")
    add("--strict", action="store_true", help=f"exit with {FOUND} if there is an error or a warning")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    """Check the network that the arguments name. Returns the exit status."""
    prepare()
    options = parse(arguments)
    with one_line_errors():
        return check_network(options)


def check_network(options: argparse.Namespace) -> int:
    """Print what was found. Raises ValueError with one line for words that name nothing."""
    from normexp.check.inputs import matched
    from normexp.check.named import data_named, imported, made, network_named, state_named
    from normexp.check.run import check
    from normexp.check.show import show

    network, data = network_named(options.model)
    if options.weights:
        own = matched(state_named(options.weights, "--weights"), network)
        if not own:
            raise ValueError(f"--weights={options.weights}: has no tensor of {options.model}")
        network.load_state_dict(own, strict=False)
    result = check(
        network,
        data_named(options.data) if options.data else data,
        loss=imported(options.loss, "--loss") if options.loss else None,
        optimizer=made(options.optimizer, "--optimizer", network) if options.optimizer else None,
        averaged=state_named(options.averaged, "--averaged") if options.averaged else None,
        state_dict=state_named(options.state_dict, "--state-dict") if options.state_dict else None,
        **{name: getattr(options, name) for name in PLAIN},
    )
    result.name = options.model
    if options.json:
        print(result.to_json())
    else:
        show(result)
    if options.page:
        print(f"page: {result.page(options.page, made_by=typed(sys.argv))}", file=sys.stderr)
    return FOUND if options.strict and not result.ok else 0
