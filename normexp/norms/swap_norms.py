"""Replace the norms of any network: `normexp.norms.swap(model, "groupnorm")`."""

import ast
import contextlib
import fnmatch
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch import nn

from normexp.format import pluralize, require_at_least, require_object
from normexp.norms.base import Norm
from normexp.norms.layers import NormLayer, norm_layer
from normexp.norms.layers.successor import successor
from normexp.norms.swap_table import Swap, SwapTable


def put(network: nn.Module, path: str, module: nn.Module) -> None:
    """Put a module at a path of a network."""
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, module)


class Original(Norm):
    """Stands for the norms that a network brings, where a run keeps them: `norm=original`. It is no layer.

    Raises:
        ValueError: always, when a model asks for a layer: it has no norms of its own to keep.
    """

    def __init__(self, num_features: int, channel_dim: int = 1, *, layer: int = 1) -> None:
        raise ValueError(
            "norm=original: keeps the norms that a network brings, and this model asks for the run's; "
            "use model=torchvision or module, or another norm"
        )


Where = str | Iterable[str] | Callable[[str, nn.Module], bool] | None


def swap(
    module: nn.Module,
    norm: str | Callable[..., nn.Module],
    *,
    where: Where = None,
    config_dir: str | Path | None = None,
    allow_targets: Iterable[str] = (),
    **options: Any,
) -> SwapTable:
    """Replace every normalization layer inside `module` by `norm`, in place. Returns the table of replacements.

    It knows torch's layers, and recognizes all others by their outputs. Gain, shift, eps, how a layer divides and
    rounds, and the momentum and statistics of a running estimate are kept if they mean the same in the new layer; no
    gain or shift is added. Device, precision and mode are always kept, and so is whether gain and shift train. A layer
    stays, with its reason, if its forward does more than its norm, if it shares its parameters or another module reads
    them, or if a new one of the same formula gives another output. Hooks stay with the old layers. Functional calls
    inside a forward (`F.layer_norm`) are not seen. `table.undo()` puts the old layers back. Make the optimizer after
    the swap.

    Args:
        norm: a name of docs/norms.md or of your folder, or a class or factory of yours, called as
            `norm(num_features, channel_dim=1, layer=k)`; k counts layers from 1.
        where: the layers to replace: a pattern of their paths ("layer4.*"), several, or a function of path and layer.
        config_dir, allow_targets: your folder of configurations, and your packages that it may name.
        options: of a named norm, e.g. `num_groups=8`. If the groups do not divide the channels of a layer, their
            greatest common divisor is used. Without the option, a GroupNorm keeps its groups and other layers get 32,
            as in the paper.

    Raises:
        ValueError: an unknown name or option, or no normalization layer to replace.
    """
    require_object("module", module)
    chosen = options if isinstance(norm, str) else None
    if isinstance(norm, str):
        require_at_least("num_groups", options.get("num_groups"), 1)
        factory = norm_named(norm, config_dir=config_dir, allow_targets=allow_targets, **options)
        if "num_groups" not in options:  # 4 suit the small models here
            factory.keywords.pop("num_groups", None)
    elif options:
        key = next(iter(options))
        raise ValueError(f"{key}: options go with the name of a norm; bind them to the factory")
    else:
        factory = _checked_factory(norm)
    found = [(paths, old) for paths, old in _places(module) if _matches(where, paths[0], old)]
    layers = [(paths, old, known) for paths, old in found if (known := norm_layer(old, paths[0])) is not None]
    if not layers:
        sought = "inside it that is known" if where is None else f"where={where}"
        raise ValueError(f"module={type(module).__name__}: no normalization layer {sought}; nothing to swap")
    # Make all new layers before any is put in place.
    replacements, owners = [], _owners(module)
    for index, (paths, old, known) in enumerate(layers, 1):
        stays = known if isinstance(known, str) else known.stays or _why_it_stays(module, paths, old, owners)
        replacement = (None, [], [stays]) if stays else successor(old, known, factory, chosen, index)
        lacks = _lacks(module, paths, replacement[0]) if replacement[0] is not None else ""
        replacements.append((None, [], [lacks]) if lacks else replacement)
    rows: list[Swap] = []
    ways_back: list[Callable[[], None]] = []
    placed: list[tuple[str, nn.Module]] = []
    for (paths, old, _), (new, carried, notes) in zip(layers, replacements, strict=True):
        if new is not None:
            for path in paths:
                put(module, path, new)
                placed.append((path, new))
                ways_back.append(functools.partial(put, module, path, old))
            notes = [*notes, *_fast_path_off(module, paths, ways_back)]
            if old._forward_hooks or old._forward_pre_hooks:
                notes.append("its hooks stay with the old layer")
        described = None if new is None else _described(new)
        rows.append(
            Swap(", ".join(paths), type(old).__name__, described, ", ".join(carried), "; ".join(notes))
        )

    def in_place() -> bool:
        now = dict(module.named_modules(remove_duplicate=False))
        return all(now.get(path) is new for path, new in placed)

    return SwapTable(rows, ways_back, in_place)


def _checked_factory(norm: Any) -> Callable[..., nn.Module]:
    """What a user passes as a factory. Raises ValueError unless it takes the arguments of a norm."""
    name = getattr(norm, "__name__", type(norm).__name__)
    if isinstance(norm, nn.Module) or not callable(norm):
        raise ValueError(
            f"norm={name}: is no name of a norm and makes none; pass a name, or a class or a factory"
        )
    try:
        inspect.signature(norm).bind(16, channel_dim=1, layer=1)
    except TypeError:
        taken = f"take them, or write lambda n, **_: {name}(n)"
        raise ValueError(f"norm={name}: is called as norm(16, channel_dim=1, layer=1); {taken}") from None
    except ValueError:  # it shows no signature
        pass
    return norm


def _places(module: nn.Module) -> list[tuple[list[str], nn.Module]]:
    """Each module inside with all its paths. Modules inside a layer that can be swapped belong to that layer."""
    paths_of: dict[nn.Module, list[str]] = {}
    inside = "\0"  # path of the last layer found; the paths of its modules follow directly
    for path, child in module.named_modules(remove_duplicate=False):
        if path and not path.startswith(inside):
            paths_of.setdefault(child, []).append(path)
            if any(child.children()) and isinstance(norm_layer(child, path), NormLayer):
                inside = f"{path}."
    return [(paths, child) for child, paths in paths_of.items()]


def _matches(where: Where, path: str, layer: nn.Module) -> bool:
    if callable(where):
        return bool(where(path, layer))
    patterns = ["*"] if where is None else [where] if isinstance(where, str) else where
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)


def _owners(network: nn.Module) -> dict[int, list[tuple[str, nn.Module]]]:
    """The modules that hold each parameter, with their paths; a parameter by its id."""
    owners: dict[int, list[tuple[str, nn.Module]]] = {}
    for path, module in network.named_modules():
        for parameter in module.parameters(recurse=False):
            owners.setdefault(id(parameter), []).append((path, module))
    return owners


def _why_it_stays(
    network: nn.Module, paths: list[str], old: nn.Module, owners: dict[int, list[tuple[str, nn.Module]]]
) -> str:
    """Why a layer cannot be replaced in its network; empty if it can."""
    inside = set(old.modules())
    for parameter in old.parameters():
        for path, other in owners[id(parameter)]:
            if other not in inside:
                return f"shares its parameters with {path or 'the network itself'}"
    for owner, name in _readers(network, paths):
        # torch's encoder layer does so too, which `_fast_path_off` ends.
        if isinstance(owner, nn.TransformerEncoderLayer):
            continue
        kind, source = type(owner).__name__, _source(type(owner))
        if re.search(READ.format(name), source):
            return f"{kind} reads its numbers, as a fused kernel does, and may not call it"
        if called := _called_with_gain(type(owner)):
            return f"{kind} passes a layer's numbers to {called}, and may not call it"
    return ""


def _readers(network: nn.Module, paths: list[str]) -> list[tuple[nn.Module, str]]:
    """The modules whose code calls a layer at these paths, with the name that it has there."""
    found = []
    for path in paths:
        *above, name = path.split(".")
        while above and (name.isdigit() or isinstance(network.get_submodule(".".join(above)), nn.ModuleDict)):
            name = above.pop()
        found.append((network.get_submodule(".".join(above)), name))
    return found


def _lacks(network: nn.Module, paths: list[str], new: nn.Module) -> str:
    """What a network reads of a layer and a new one does not have, as a dtype; empty if it has all."""
    first = new[0] if isinstance(new, nn.Sequential) else new
    for owner, name in _readers(network, paths):
        read = re.search(rf"\b{name}(\[[^\]]*\])?\.(weight|bias)\.", _source(type(owner)))
        if read and getattr(first, read[2], None) is None:
            return f"{type(owner).__name__} reads its {read[2]}, which {type(first).__name__} has not"
    return ""


# Reading a number of a layer, `self.norm.weight`, and not a property of it, `self.norm.weight.dtype`.
READ = r"\b{}(\[[^\]]*\])?\.(weight|bias|eps|variance_epsilon)\b(?!\.(dtype|device|shape|size|ndim|numel))"
FUNCTIONS = {"layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm"}
NO_PASS = re.compile(r"__|_?(init|reset|load|save|from_|extra_repr)")


@functools.cache
def _methods(kind: type) -> list[str]:
    """The sources of the methods of a class that may be part of a forward pass."""
    found = []
    for owner in kind.__mro__[: kind.__mro__.index(nn.Module)]:
        for name, method in vars(owner).items():
            if inspect.isfunction(method) and not NO_PASS.match(name):
                with contextlib.suppress(OSError, TypeError):  # of a class that no file holds
                    found.append(textwrap.dedent(inspect.getsource(method)))
    return found


def _source(kind: type) -> str:
    return "\n".join(_methods(kind))


@functools.cache
def _called_with_gain(kind: type) -> str:
    """The function to which a class gives the gain of a layer that it keeps in a variable; empty if it does not:
    `for ln in self.norms: x = F.layer_norm(x, (8,), ln.weight)`."""
    for source in _methods(kind):
        with contextlib.suppress(SyntaxError):  # of a lambda
            for call in ast.walk(ast.parse(source)):
                if not isinstance(call, ast.Call):
                    continue
                name = getattr(call.func, "attr", getattr(call.func, "id", ""))
                given = [*call.args, *(word.value for word in call.keywords)]
                gains = [x.value for x in given if isinstance(x, ast.Attribute) and x.attr == "weight"]
                if name in FUNCTIONS and any(isinstance(x, ast.Name) and x.id != "self" for x in gains):
                    return name
    return ""


def _described(new: nn.Module) -> str:
    first, *rest = new if isinstance(new, nn.Sequential) else (new,)
    groups = f"({pluralize(first.num_groups, 'group')})" if hasattr(first, "num_groups") else ""
    return " + ".join([f"{type(first).__name__}{groups}", *(type(m).__name__ for m in rest)])


def _fast_path_off(module: nn.Module, paths: list[str], ways_back: list[Callable[[], None]]) -> list[str]:
    """In eval mode, torch's TransformerEncoderLayer passes the numbers of its norms to a fused LayerNorm. Turn that
    off."""
    notes = []
    for path in paths:
        layer = module.get_submodule(path.rpartition(".")[0])
        if isinstance(layer, nn.TransformerEncoderLayer):
            notes = ["fast path of TransformerEncoderLayer turned off"]
            _set(layer, "activation_relu_or_gelu", 0, ways_back)
            for encoder in module.modules():
                if isinstance(encoder, nn.TransformerEncoder) and layer in encoder.layers:
                    _set(encoder, "use_nested_tensor", False, ways_back)
    return notes


def _set(owner: nn.Module, name: str, value: Any, ways_back: list[Callable[[], None]]) -> None:
    if getattr(owner, name, value) != value:
        ways_back.append(functools.partial(setattr, owner, name, getattr(owner, name)))
        setattr(owner, name, value)


def norm_named(
    name: str, *, config_dir: str | Path | None = None, allow_targets: Iterable[str] = (), **options: Any
) -> functools.partial[nn.Module]:
    """The factory of `norm=<name>` on the command line: `norm(num_features, channel_dim=1, *, layer=1)`.

    Args:
        config_dir, allow_targets: as in `train`.
        options: they replace those of the file, e.g. `num_groups=8`.

    Raises:
        ValueError: no such name, or an option that the norm does not have.
    """
    from normexp.config.checks import INJECTED, check_node  # composing loads Hydra
    from normexp.config.compose import chosen_node
    from normexp.config.folder import using
    from normexp.config.targets import construct

    with using(config_dir, allow_targets):
        node = chosen_node("norm", name) | options
        check_node("norm", node, INJECTED["norm"])
        return construct("norm", node)
