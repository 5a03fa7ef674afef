"""Replace the norms of any network: `normexp.norms.swap(model, "groupnorm")`."""

import fnmatch
import functools
import importlib
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import yaml
from torch import nn

from normexp.config.folder import CONFIGS
from normexp.format import pluralize, require_choice
from normexp.norms.base import Norm
from normexp.norms.layers import NormLayer, norm_layer


@dataclass(frozen=True)
class Swap:
    """One normalization layer: its place, the old layer and the new one.

    Attributes:
        path: of the layer in the network. A layer that is used at several places has several, separated by commas.
        new: None if the old layer stays; `note` says why.
        carried: what the new layer kept: gain, shift, running statistics, eps.
        note: what could not be kept, and what else was changed.
    """

    path: str
    old: str
    new: str | None
    carried: str
    note: str = ""


class SwapTable(Sequence[Swap]):
    """The rows of a swap. `print` shows a table. `undo()` puts the old layers back."""

    def __init__(self, rows: list[Swap], ways_back: list[Callable[[], None]]):
        self.rows, self._ways_back = rows, ways_back

    def undo(self) -> None:
        """Put the old layers back. A network that was not trained since the swap then computes the same as before, bit
        for bit. The new layers keep what they learned. A second call does nothing."""
        while self._ways_back:
            self._ways_back.pop()()

    @property
    def left(self) -> list[Swap]:
        """The layers that could not be swapped."""
        return [row for row in self.rows if row.new is None]

    def __getitem__(self, index):
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Swap]:
        return iter(self.rows)

    def notes(self) -> list[str]:
        """What a user should know before training: the layers that stay, and what others could not keep, each with the
        number of its layers: `its running statistics are lost (20 layers)`."""
        found: Counter[str] = Counter()
        for row in self.rows:
            if row.new is None:
                found[f"{row.old} stays: {row.note}"] += 1
            else:
                found.update(note for note in row.note.split("; ") if note)
        return [f"{note} ({n} layer{'s' * (n > 1)})" for note, n in found.items()]

    def __str__(self) -> str:
        head = ("path", "old", "new", "carried over", "note")
        cells = [head, *((r.path, r.old, r.new or "stays", r.carried, r.note) for r in self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        return "\n".join(lines)

    __repr__ = __str__


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
RUNNING = ("running_mean", "running_var", "num_batches_tracked")


def swap(
    module: nn.Module, norm: str | Callable[..., nn.Module], *, where: Where = None, **options: Any
) -> SwapTable:
    """Replace every normalization layer inside `module` by `norm`, in place. Returns the table of replacements.

    It knows torch's layers, and recognizes those of torchvision, timm and Hugging Face by their attributes and outputs.
    Gain, shift, eps, and the momentum and statistics of a running estimate are kept if they mean the same in the new
    layer. Device, precision and mode are always kept, and so is whether gain and shift train. Hooks stay with the old
    layers. Functional calls inside a forward (`F.layer_norm`) are not seen. `table.undo()` puts the old layers back.
    Make the optimizer after the swap.

    Args:
        norm: a name of docs/norms.md, or a class or factory of yours, called as
            `norm(num_features, channel_dim=1, layer=k)`; k counts layers from 1.
        where: the layers to replace: a pattern of their paths ("layer4.*"), several, or a function of path and layer.
        options: of a named norm, e.g. `num_groups=8`. If the groups do not divide the channels of a layer, their
            greatest common divisor is used.

    Raises:
        ValueError: an unknown name or option, or no normalization layer to replace.
    """
    if options and not isinstance(norm, str):
        raise ValueError(
            f"{next(iter(options))}: options go with the name of a norm; bind them to the factory"
        )
    factory = norm_named(norm, **options) if isinstance(norm, str) else norm
    found = [(paths, old) for paths, old in _places(module) if _chosen(where, paths[0], old)]
    layers = [(paths, old, is_a) for paths, old in found if (is_a := norm_layer(old, paths[0])) is not None]
    if not layers:
        sought = "inside it" if where is None else f"where={where}"
        raise ValueError(f"module={type(module).__name__}: no normalization layer {sought}; nothing to swap")
    # Make all new layers before any is put in place.
    made = [
        _new(old, is_a, factory, options if isinstance(norm, str) else None, k)
        for k, (_, old, is_a) in enumerate(layers, 1)
    ]
    rows: list[Swap] = []
    ways_back: list[Callable[[], None]] = []
    for (paths, old, is_a), (new, carried, note) in zip(layers, made, strict=True):
        name = type(old).__name__
        if new is None:
            reason = is_a if isinstance(is_a, str) else is_a.stays
            rows.append(Swap(", ".join(paths), name, None, "", reason))
            continue
        for path in paths:
            put(module, path, new)
            ways_back.append(functools.partial(put, module, path, old))
        note = "; ".join(part for part in (note, _fast_path_off(module, paths, ways_back)) if part)
        rows.append(Swap(", ".join(paths), name, _described(new), ", ".join(carried), note))
    return SwapTable(rows, ways_back)


def _places(module: nn.Module) -> list[tuple[list[str], nn.Module]]:
    """Each module inside with all its paths. Modules inside a layer that can be swapped belong to that layer."""
    places: dict[nn.Module, list[str]] = {}
    inside = "\0"  # path of the last layer found; the paths of its modules follow directly
    for path, child in module.named_modules(remove_duplicate=False):
        if path and not path.startswith(inside):
            places.setdefault(child, []).append(path)
            if any(child.children()) and isinstance(norm_layer(child), NormLayer):
                inside = f"{path}."
    return [(paths, child) for child, paths in places.items()]


def _chosen(where: Where, path: str, layer: nn.Module) -> bool:
    if where is None:
        return True
    if callable(where):
        return bool(where(path, layer))
    return any(
        fnmatch.fnmatchcase(path, pattern) for pattern in ([where] if isinstance(where, str) else where)
    )


def _new(
    old: nn.Module,
    is_a: NormLayer | str,
    factory: Callable[..., nn.Module],
    options: dict[str, Any] | None,
    layer: int,
) -> tuple[nn.Module | None, list[str], str]:
    """(the new layer, what it kept of `old`, a note on what it could not keep). `options` is None for a user's factory,
    whose options are not changed."""
    if isinstance(is_a, str) or is_a.stays:
        return None, [], ""
    carried, notes = [], []
    kept = {} if options is None else _kept_options(factory, is_a, options)
    new = factory(is_a.num_features, channel_dim=is_a.channel_dim, layer=layer, **kept)
    carried += [f"{key}={value}" for key, value in kept.items() if key in ("eps", "ema_keep")]
    if "num_groups" in kept and kept["num_groups"] != (asked := factory.keywords["num_groups"]):  # type: ignore[attr-defined]
        groups = f"{kept['num_groups']} group{'s' * (kept['num_groups'] > 1)}"
        notes.append(f"{asked} groups do not divide its {is_a.num_features} channels: {groups}")
    like = is_a.gain if is_a.gain is not None else next(iter((*old.parameters(), *old.buffers())), None)
    if isinstance(like, torch.Tensor) and like.is_floating_point():
        new = new.to(like.device, like.dtype)
    with torch.no_grad():
        for name, ours, value in (("gain", "weight", is_a.gain), ("shift", "bias", is_a.shift)):
            target = getattr(new, ours, None)
            if value is not None and target is not None and target.shape == value.shape:
                target.copy_(value - 1 if name == "gain" and _one_plus(new) else value)
                target.requires_grad_(is_a.trained and target.requires_grad)
                carried.append(name)
            elif value is not None:
                notes.append(f"its {name} is lost")
        if all(getattr(m, "running_mean", None) is not None for m in (old, new)) and is_a.kind != "instance":
            for name in RUNNING:
                if (value := getattr(old, name, None)) is not None:
                    getattr(new, name).copy_(value)
            carried.append("running statistics")
            if is_a.frozen:
                notes.append("was frozen, follows the batch while training")
        elif getattr(new, "running_mean", None) is not None:
            notes.append("running statistics begin anew")
        elif _moved(old):
            notes.append(
                "its running statistics are lost, so eval mode computes something else until it is trained"
            )
    new.train(old.training)
    if is_a.activations:
        new = nn.Sequential(new, *is_a.activations).train(old.training)
    return new, carried, "; ".join(notes)


def _one_plus(layer: nn.Module) -> bool:
    """Whether the gain of a layer is 1 + `weight`."""
    return getattr(layer, "gain", None) == "one_plus"


def _moved(old: nn.Module) -> bool:
    """Whether a layer has running statistics that are not at their start, 0 and 1."""
    mean, var = getattr(old, "running_mean", None), getattr(old, "running_var", None)
    if mean is None or var is None or mean.is_meta:
        return False
    return not (mean.eq(0).all() and var.eq(1).all())


def _kept_options(factory: functools.partial, old: NormLayer, options: dict[str, Any]) -> dict[str, Any]:
    """Options of a named norm that follow from the old layer, unless the user set them."""
    takes = inspect.signature(factory.func).parameters
    kept: dict[str, Any] = {"eps": old.eps} if old.kind != "pointwise" else {}
    if (
        old.kind == "batch"
        and old.keep is not None
        and factory.keywords.get("population_statistics") == "ema"
    ):
        kept["ema_keep"] = old.keep
    if old.gain is None and old.shift is None and old.kind != "pointwise":
        kept["affine"] = "none"
    if "num_groups" in takes:
        kept["num_groups"] = math.gcd(factory.keywords["num_groups"], old.num_features)
    if takes.get("affine") and factory.func.__name__ == "ScaleNorm":
        kept.pop("affine", None)  # this norm always has a gain
    return {
        key: value
        for key, value in kept.items()
        if key in takes and (key not in options or key == "num_groups")
    }


def _described(new: nn.Module) -> str:
    first, *rest = new if isinstance(new, nn.Sequential) else (new,)
    groups = f"({pluralize(first.num_groups, 'group')})" if hasattr(first, "num_groups") else ""
    return " + ".join([f"{type(first).__name__}{groups}", *(type(m).__name__ for m in rest)])


def _fast_path_off(module: nn.Module, paths: list[str], ways_back: list[Callable[[], None]]) -> str:
    """In eval mode, torch's TransformerEncoderLayer passes the numbers of its norms to a fused LayerNorm. Turn that
    off."""
    note = ""
    for path in paths:
        layer = module.get_submodule(path.rpartition(".")[0])
        if isinstance(layer, nn.TransformerEncoderLayer):
            note = "fast path of TransformerEncoderLayer turned off"
            _set(layer, "activation_relu_or_gelu", 0, ways_back)
            for encoder in module.modules():
                if isinstance(encoder, nn.TransformerEncoder) and layer in encoder.layers:
                    _set(encoder, "use_nested_tensor", False, ways_back)
    return note


def _set(owner: nn.Module, name: str, value: Any, ways_back: list[Callable[[], None]]) -> None:
    if getattr(owner, name, value) != value:
        ways_back.append(functools.partial(setattr, owner, name, getattr(owner, name)))
        setattr(owner, name, value)


def norm_named(name: str, **options: Any) -> functools.partial[nn.Module]:
    """The factory of `norm=<name>` on the command line: `norm(num_features, channel_dim=1, *, layer=1)`.

    For references such as `${eps}` and `${seed}` in the file, the default of the class is used.

    Args:
        options: they replace those of the file, e.g. `num_groups=8`.

    Raises:
        ValueError: no such name, or an option that the norm does not have.
    """
    known = {path.stem: path for path in (CONFIGS / "norm").glob("*.yaml")}
    require_choice("norm", name, sorted(known))
    node = yaml.safe_load(known[name].read_text())
    module, _, made_of = node.pop("_target_").rpartition(".")
    made: Callable[..., nn.Module] = getattr(importlib.import_module(module), made_of)
    written = {
        key: value for key, value in node.items() if not key.startswith("_") and "${" not in str(value)
    }
    parameters = inspect.signature(made).parameters.values()
    takes = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "layer"]
    for key in options:
        if key not in takes:
            raise ValueError(f"{key}={options[key]}: no option of {name}; use one of {', '.join(takes)}")
    return functools.partial(made, **(written | options))
