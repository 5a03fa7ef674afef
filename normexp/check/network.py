"""A network, and what is measured on it when a finding asks."""

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader

from normexp.check.estimates import Modes, estimate_anew, modes, own_statistics
from normexp.check.inputs import (
    HALF,
    PRECISIONS,
    CheckOptions,
    FirstBatch,
    cut,
    drawn,
    is_batch,
    name_of,
    root_of,
    seeded,
)
from normexp.check.norm_sites import SELF, NormSite, gain_type, norms_of
from normexp.check.result import NotChecked
from normexp.check.trace import Call, Trace, trace
from normexp.config.errors import why
from normexp.format import pluralize
from normexp.monitors.batches import ENTROPY, PROBE, SQUARED, Batches, Step, called_with, size_of, tensor_of
from normexp.monitors.guard import copied_batch, loss_of, to_module, untouched, weights
from normexp.monitors.listen import NORMS, CalledFunction

ENOUGH = 256  # samples that judge running statistics, in at least 8 batches


@dataclass(eq=False, repr=False)
class Network:
    """A network and what a check may ask of it. Each measure is made once, when it is first asked for.

    Attributes:
        step: has a `training_step`.
        batches: that the passes see.
        batch_size: samples of a batch that is not cut; None if they cannot be counted.
        data: what the user passed as data.
        cut: to how many samples batches are cut; None if they are whole.
        samples: of the batches that the passes see; None if they cannot be counted.
    """

    step: nn.Module
    batches: Batches
    batch_size: int | None
    data: Any
    options: CheckOptions
    cut: int | None = None

    def __post_init__(self) -> None:
        self.root, self.samples = root_of(self.step), size_of(self.batches.training)
        self.modules, self.norms = dict(self.root.named_modules()), norms_of(self.step)
        self.tracked = [norm for norm in self.norms if norm.tracked]

    @cached_property
    def training_loader(self) -> Any:
        """The loader of the training, alone or of a data module; None if the user passed batches."""
        if hasattr(self.data, "train_dataloader"):
            return self.data.train_dataloader()
        loader = self.data.loader if isinstance(self.data, FirstBatch) else self.data
        return loader if isinstance(loader, DataLoader) else None

    def samples_in(self, call: Call) -> int:
        """Samples that a call of a norm gets: all of the batch, or fewer where a network takes it in parts."""
        batch, shape = self.samples or 1, call.x.shape
        time_first = len(shape) == 3 and shape[1] == batch and call.norm.channel_dim(3) != 1
        return batch if time_first else min(shape[0], batch)

    def gets_a_part(self, call: Call) -> bool:
        """Whether a call of a norm gets fewer samples than the batch has."""
        return self.samples_in(call) < (self.samples or 1)

    def samples_per_statistic(self, call: Call) -> int:
        """Samples in one statistic of a call over the batch when that is not cut; ghost BatchNorm takes parts of it."""
        virtual = getattr(call.norm.module, "virtual_batch_size", None)
        return virtual or (self.samples_in(call) if self.gets_a_part(call) else self.known_batch_size)

    def values_per_statistic(self, call: Call) -> int:
        """How many values enter one statistic of a call when the batch is not cut."""
        if call.norm.kind != "batch" or self.samples is None or self.batch_size is None:
            return call.values
        return call.values * self.samples_per_statistic(call) // self.samples_in(call)

    @property
    def known_batch_size(self) -> int:
        """`batch_size`. Raises NotChecked if the samples cannot be counted."""
        if self.batch_size is None:
            raise NotChecked("the samples of a batch cannot be counted; pass tensors, (inputs, targets)")
        return self.batch_size

    @contextlib.contextmanager
    def quiet(
        self, *, train: bool, without: Iterable[NormSite] = (), wide: bool = False
    ) -> Iterator[nn.Module]:
        """The module in a copy of its state, in training mode (layers that are frozen in eval mode stay so while the
        rest trains) or in eval mode; some norms may be made the identity, and `wide` leaves autocast out. Afterwards
        everything is put back."""
        with seeded(self.options.seed), untouched(self.step), self.autocast(not wide):
            if not train:
                self.step.eval()
            elif not self.root.training:
                self.step.train()
            for norm in without:
                norm.module.register_forward_hook(keep_input)
            functions = {norm.module.name for norm in without if isinstance(norm.module, CalledFunction)}
            with Skipped(functions, self.norms) if functions else contextlib.nullcontext():
                yield self.step

    def autocast(self, enabled: bool = True) -> contextlib.AbstractContextManager:
        """The precision of the training, where autocast makes it. Nothing is cached: passes take other weights."""
        kind = PRECISIONS.get(self.options.precision or "")
        if not enabled or kind not in HALF or "mixed" not in str(self.options.precision):
            return contextlib.nullcontext()
        device = next(p.device.type for p in self.step.parameters())
        return torch.autocast(device, dtype=kind, cache_enabled=False)

    @cached_property
    def attempt(self) -> Trace:
        """One training pass, forward and backward, or as far as it came."""
        with self.quiet(train=True) as step:
            seen = trace(step, self.batches.training, self.norms, hear=True)
        seen.loss_by = self.step.origin.how if isinstance(self.step, Step) else "its training_step"
        return seen

    @property
    def trace(self) -> Trace:
        """The training pass. Raises NotChecked if it fails."""
        self.require_pass()
        if self.attempt.skipped:
            raise NotChecked("the training step gives no loss for this batch; pass another one")
        return self.attempt

    def require_pass(self) -> None:
        """Raise NotChecked if the training pass ended in an error: norms behind it did not run."""
        if self.attempt.error is not None:
            raise NotChecked("the training pass fails; see pass_fails")

    @property
    def calls(self) -> list[Call]:
        """The calls of norms in the training pass."""
        return self.trace.calls

    @property
    def understood(self) -> list[Call]:
        """The calls whose statistics were measured. Raises NotChecked if there are none."""
        if calls := [call for call in self.calls if call.understood]:
            return calls
        if all(norm.kind == "none" for norm in self.norms):
            return []
        raise NotChecked("no norm whose formula is known runs in the training pass")

    @cached_property
    def arriving(self) -> list[Call]:
        """The calls as far as the training pass came; without autocast if something is not finite in it, so that what
        the precision does is told from what the network does."""
        calls = self.attempt.calls
        if all(math.isfinite(call.largest) and call.finite for call in calls):
            return calls
        with self.quiet(train=True, wide=True) as step:
            wide = trace(step, self.batches.training, self.norms)
        return calls if wide.error is not None else wide.calls

    @property
    def guessed(self) -> bool:
        """Whether the loss is a guess or a probe, and not the user's or the network's own."""
        return self.attempt.loss_by in (PROBE, SQUARED, ENTROPY)

    @cached_property
    def modes(self) -> Modes:
        """Three passes without gradients: running statistics, and the batch's own on both batches."""
        _ = self.trace  # where training fails, nothing is compared with it
        with self.quiet(train=False) as step, torch.no_grad():
            return modes(step, self.batches, self.tracked)

    @cached_property
    def other_batches(self) -> list[Any]:
        """Batches besides the held-out one, from which statistics may be estimated anew; that one if there is no
        other."""
        if self.data is None or is_batch(self.data):
            return [self.batches.training]
        count = max(8, ENOUGH // (self.samples or ENOUGH))
        batches = drawn(self.data, count + 1, self.options.seed)
        held_out = len(batches) - 1 if isinstance(self.data, (list, tuple)) else 1
        batches = (batches[:held_out] + batches[held_out + 1 :])[:count]
        return [to_module(cut(b, self.cut), self.step) for b in batches] or [self.batches.training]

    def mode_losses(self) -> Iterator[tuple[Any, float, float]]:
        """(batch, its loss with the running statistics, with its own) for the held-out batch, and the others that can
        train: one of a single sample may not."""
        yield self.batches.held_out, self.modes.running, self.modes.batch
        for batch in self.other_batches:
            with self.quiet(train=False) as step, torch.no_grad():
                seen = trace(step, batch, [])
                by_batch, _ = own_statistics(step, batch, self.tracked)
            if not any(passed.error or passed.skipped for passed in (seen, by_batch)):
                yield batch, seen.loss, by_batch.loss

    def loss_anew(self, batches: list[Any]) -> float:
        """The mean loss of batches with running statistics that are estimated anew: for each half from the other."""
        halves, losses = [batches[::2], batches[1::2] or batches[::2]], []
        for half, other in (halves, halves[::-1]):
            with self.quiet(train=False) as step, torch.no_grad():
                estimate_anew(step, other, self.tracked)
                losses += [float(loss_of(step, batch)) for batch in half]
        return fmean(losses)

    def forward(self, batch: Any) -> Tensor:
        """The tensor that the network itself gives for a copy of a batch, from copies of the weights. Call it in
        `quiet`. Raises NotChecked if the network takes something else."""
        try:
            with weights({p: p.data.clone() for p in self.root.parameters()}):
                try:
                    return tensor_of(called_with(self.root, copied_batch(batch))[0])
                except RuntimeError:
                    if torch.is_grad_enabled():
                        raise
                with torch.enable_grad():  # it takes gradients itself, as of an energy for its forces
                    return tensor_of(called_with(self.root, copied_batch(batch))[0]).detach()
        except Exception as error:  # of a user's network; the pass of the whole step is judged elsewhere
            alone = "the network alone cannot be called with a batch; pass it, and loss="
            raise NotChecked(why(error) if isinstance(self.step, Step) else alone) from error

    def output(self, batch: Any) -> Tensor:
        """The output in float64, a row for each sample. Raises NotChecked if there is none."""
        y = self.forward(batch)
        if not y.dim() or len(y) != self.samples or len(y) < 2:
            raise NotChecked("no output for each sample of a batch of two and more")
        return y.detach().double()

    def parameters(self) -> dict[nn.Parameter, str]:
        """The parameters of the norms themselves -> their names."""
        return {
            p: norm.named(name)
            for norm in self.norms
            for name, p in norm.module.named_parameters(recurse=False)
        }

    @property
    def changing(self) -> list[str]:
        """Names of the tensors of norms, beside parameters, that training changes: running statistics, and what changed
        in the training pass."""
        names: list[str] = []
        for norm in self.norms:
            if norm.tracked and norm.follows_batches and (norm.module.training or not self.root.training):
                counts = getattr(norm.module, "num_batches_tracked", None) is not None
                held = [*(norm.layer.running or ()), *(["num_batches_tracked"] if counts else [])]
            else:
                held = self.attempt.changed.get(norm.path, [])
            names += map(norm.named, held)
        return names

    def require_watched(self, statistics: bool) -> None:
        """Raise NotChecked if a norm could not be watched, or with `statistics`, if one that has running statistics is
        not understood, or a layer changes something in training mode that is no known running statistic."""
        for path, reason in self.attempt.hidden.items():
            raise NotChecked(f"{path} {reason}")
        for path, names in self.attempt.changed.items() if statistics else ():
            raise NotChecked(
                f"{path or 'the network'} changes {', '.join(names)} in the training pass, not as a running mean and "
                "variance that eval mode uses; if it is a norm, keep them as nn.BatchNorm does"
            )

        for norm in self.met if statistics else ():
            if norm.tracked and norm.kind == "unknown":
                raise NotChecked(
                    f"{norm.path} has running statistics and is not understood: {norm.layer.stays}"
                )

    @property
    def met(self) -> list[NormSite]:
        """The norms, as their calls in the training pass know them."""
        called = {call.norm: call.norm for call in self.attempt.calls}
        return [called.get(norm, norm) for norm in (*self.norms, *self.attempt.heard)]

    def counts(self) -> str:
        """The norms, counted: `4 LayerNorm, 1 F.rms_norm`."""
        counts = Counter(norm.name for norm in (*self.norms, *self.attempt.heard))
        return ", ".join(f"{count} {name}" for name, count in counts.items())

    def in_short(self) -> str:
        """The norms, counted, the samples of a pass, and how its loss was computed."""
        samples = pluralize(self.samples, "sample") if self.samples else "uncounted samples"
        return (
            f"{self.counts()}; {samples} a pass; loss: {self.attempt.loss_by or 'none, since the pass fails'}"
        )

    def not_understood(self) -> list[str]:
        """`4 CohereLayerNorm are not understood: ...`, for each class on whose statistics nothing can be said."""
        unknown = [norm for norm in self.met if norm.kind == "unknown"]
        counts = Counter((norm.name, norm.layer.stays) for norm in unknown)
        return [
            f"{count} {name} {'is' if count == 1 else 'are'} not understood: {reason}"
            for (name, reason), count in counts.items()
        ]

    def in_words(self) -> list[str]:
        """Over what each norm normalizes in the training pass, and its types; norms that are alike are one line."""
        alike: dict[str, dict[nn.Module, NormSite]] = defaultdict(dict)
        for call in self.attempt.calls:
            types = " -> ".join(name_of(kind) for kind in (call.x.dtype, call.gives) if kind)
            if (gain := gain_type(call.norm)) is not None:
                types += f", gain {name_of(gain)}"
            alike[f"{call.norm.description(call.x.shape)}; {types}"][call.norm.module] = call.norm
        for norm in self.norms:
            if norm.kind == "none":  # DyT, for one
                alike["takes no statistic"][norm.module] = norm
        lines = []
        for description, norms in alike.items():
            first, *more = norms.values()
            names = "/".join(dict.fromkeys(norm.name for norm in norms.values()))
            others = f" and {len(more)} more" if more else ""
            lines.append(f"{first.path} ({names}){others}: {description}")
        return lines

    def code(self, path: str) -> str:
        """The module at a path as code: `model.layer1[0].bn1`; of a called function, the layer that calls it."""
        owner, of_function, _ = path.partition(":")
        path = "" if of_function and owner == SELF else owner
        parts = path.split(".") if path else []
        return "model" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in parts)


class Skipped(TorchFunctionMode):
    """Makes the norms that a network calls as functions of some names the identity, but not those of its layers."""

    def __init__(self, names: set[str], norms: list[NormSite]) -> None:
        super().__init__()
        self.names, self.inside = names, 0
        for norm in norms:
            norm.module.register_forward_pre_hook(lambda *_: self.enter(1))
            norm.module.register_forward_hook(lambda *_: self.enter(-1), always_call=True)

    def enter(self, step: int) -> None:
        self.inside += step

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not self.inside and func in NORMS and NORMS[func][0] in self.names:
            return args[0] if args else kwargs["input"]
        return func(*args, **kwargs)


def keep_input(module: nn.Module, args: tuple, output: Any) -> Any:
    """A hook that makes a norm the identity."""
    return args[0] if args and isinstance(args[0], Tensor) else output
