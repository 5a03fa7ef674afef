"""`normexp check my_package:Model --data my_package:loader`: what is wrong with the norms of a network."""

import sys
from types import SimpleNamespace

from normexp.cli.command import command
from normexp.config.process import typed

FOUND = 1  # exit status with --strict
PLAIN = ("precision", "accumulate", "devices", "converted_from", "steps", "samples")  # options as they are


@command()
def main(asked: SimpleNamespace) -> int:
    """Print what was found. Returns the exit status."""
    if len(asked.others) != 1:
        raise ValueError("name one network, such as my_package:Model; --help explains")
    from normexp.check.inputs import matched
    from normexp.check.resolve import data_named, imported, made, network_named, state_named
    from normexp.check.run import check
    from normexp.check.show import show

    (name,) = asked.others
    network, data = network_named(name)
    if asked.weights:
        own = matched(state_named(asked.weights, "--weights"), network)
        if not own:
            raise ValueError(f"--weights={asked.weights}: has no tensor of {name}")
        network.load_state_dict(own, strict=False)
    result = check(
        network,
        data_named(asked.data) if asked.data else data,
        loss=imported(asked.loss, "--loss") if asked.loss else None,
        optimizer=made(asked.optimizer, "--optimizer", network) if asked.optimizer else None,
        averaged=state_named(asked.averaged, "--averaged") if asked.averaged else None,
        state_dict=state_named(asked.state_dict, "--state-dict") if asked.state_dict else None,
        **{key: getattr(asked, key) for key in PLAIN},
    )
    result.name = name
    if asked.json:
        print(result.to_json())
    else:
        show(result)
    if asked.page:
        print(f"page: {result.page(asked.page, made_by=typed(sys.argv))}", file=sys.stderr)
    return FOUND if asked.strict and not result.ok else 0
