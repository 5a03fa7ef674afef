"""`normexp check my_package:Model --data my_package:loader`: what is wrong with the norms of a network."""

import sys
from types import SimpleNamespace

from normexp.cli.command import command
from normexp.config.process import typed

FOUND = 1  # exit status with --strict
PLAIN = ("precision", "accumulate", "devices", "converted_from", "steps", "samples")  # options as they are


@command("check")
def main(args: SimpleNamespace) -> int:
    """Print what was found. Returns the exit status."""
    if len(args.others) != 1:
        raise ValueError("name one network, such as my_package:Model; --help explains")
    from normexp.check.inputs import matched
    from normexp.check.resolve import data_named, function_named, made, network_named, state_named
    from normexp.check.run import check
    from normexp.check.show import show

    (name,) = args.others
    network, data = network_named(name)
    if args.weights:
        tensors = matched(state_named(args.weights, "--weights"), network)
        if not tensors:
            raise ValueError(f"--weights={args.weights}: has no tensor of {name}")
        network.load_state_dict(tensors, strict=False)
    result = check(
        network,
        data_named(args.data) if args.data else data,
        loss=function_named(args.loss, "--loss") if args.loss else None,
        optimizer=made(args.optimizer, "--optimizer", network) if args.optimizer else None,
        averaged=state_named(args.averaged, "--averaged") if args.averaged else None,
        state_dict=state_named(args.state_dict, "--state-dict") if args.state_dict else None,
        **{key: getattr(args, key) for key in PLAIN},
    )
    result.name = name
    if args.json:
        print(result.to_json())
    else:
        show(result)
    if args.page:
        print(f"page: {result.page(args.page, made_by=typed(sys.argv))}", file=sys.stderr)
    return FOUND if args.strict and not result.ok else 0
