"""What depth does to a batch of samples: do they become parallel, how many directions are left? And what does each
block of a transformer add to its stream, where does attention look, which values stand out?"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from normexp.format import require_at_least
from normexp.models.sites import names_its_sites, sites_of
from normexp.monitors.base import Monitor
from normexp.monitors.batches import Batches
from normexp.monitors.guard import loss_of
from normexp.monitors.listen import listen, unheard
from normexp.monitors.sites import Site, axis_at, read_input, to_rows, wide


def geometry(features: Tensor) -> dict[str, Tensor]:
    """Numbers about n vectors, `features` (..., n, d). Each is (...):

    - q_value: mean square of all entries
    - c_value and abs_cosine: mean cosine, and mean absolute cosine, over pairs of different samples (q and c of Poole
      et al. 2016; init2winit)
    - effective_rank: exp of the entropy of the singular values divided by their sum (Roy & Vetterli 2007), 1 to
      min(n, d)
    - orthogonality_gap: ||K / tr K - I / n||_F with the Gram matrix K, 0 for orthogonal samples of equal length
      (Daneshmand et al. 2021, arXiv:2106.03970)
    """
    n = features.shape[-2]
    eye = torch.eye(n, dtype=features.dtype, device=features.device)
    lengths = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    unit = features / lengths.clamp_min(torch.finfo(features.dtype).tiny)
    cosine = unit @ unit.mT  # (..., n, n)
    off_diagonal = 1 - eye
    pairs = n * (n - 1)
    # In float64, because float32 would blur the small singular values that count for the rank.
    gram = wide(features) @ wide(features).mT
    share = gram / gram.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
    return {
        "q_value": features.square().mean((-2, -1)),
        "c_value": (cosine * off_diagonal).sum((-2, -1)) / pairs,
        "abs_cosine": (cosine * off_diagonal).abs().sum((-2, -1)) / pairs,
        "effective_rank": effective_rank(share),
        "orthogonality_gap": torch.linalg.matrix_norm(share - eye / n),
    }


def effective_rank(gram: Tensor) -> Tensor:
    """exp of the entropy of the singular values of X, from the Gram matrix X X^T (..., n, n); nan if not finite."""
    finite = gram.isfinite().all(-1).all(-1)
    singular = torch.linalg.eigvalsh(torch.nan_to_num(gram)).clamp_min(0).sqrt()
    share = singular / singular.sum(-1, keepdim=True)
    return torch.where(finite, torch.exp(-torch.special.xlogy(share, share).sum(-1)), float("nan"))


class Representation(Monitor):
    """The numbers of `geometry` on the held-out batch: `q_value`, `c_value`, `abs_cosine`, `effective_rank` and
    `orthogonality_gap`. Each is logged `/<layer>` for the output of each non-linearity, and as
    `residual_<name>/<layer>` for the residual stream. `residual_variance/<layer>` is the variance of all values of the
    stream.

    A vector is the whole feature map of a sample; in a transformer, (N, T, C), it is one token. At most `max_vectors`
    vectors are compared, at least 2, at random places that stay the same.
    """

    def __init__(self, *, every_n_steps: int | None, batch_size: int = 256, max_vectors: int = 256) -> None:
        super().__init__(every_n_steps=every_n_steps, batch_size=batch_size)
        require_at_least("max_vectors", max_vectors, 2)
        self.max_vectors = max_vectors

    def keys(self) -> set[str]:
        names = {"q_value", "c_value", "abs_cosine", "effective_rank", "orthogonality_gap"}
        return names | {f"residual_{name}" for name in names} | {"residual_variance"}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        values: dict[str, Tensor] = {}
        sites, declared = sites_of(module), names_its_sites(module)

        def record(site: Site, output: Any) -> None:
            if isinstance(output, Tensor):
                values.update(self._geometry_at(site, output, axis_at(site, output, declared)))

        def heard(site: Site, x: Tensor) -> Callable[[Tensor], None] | None:
            return functools.partial(record, site) if site.kind == "activation" else None

        for site in sites:
            if site.kind in ("activation", "residual"):
                site.module.register_forward_hook(lambda _, inputs, output, site=site: record(site, output))
        self.handles.append(listen(module, sites, None if declared else heard))
        with torch.no_grad():
            loss_of(module, batches.held_out)
        return values

    def _geometry_at(self, site: Site, output: Tensor, axis: int | None) -> dict[str, Tensor]:
        """The values of a site; `axis` is that of the output's channels. None where nothing tells what a vector is."""
        if output.ndim == 3 and axis is None:
            return {}
        vectors = self._vectors(output, axis)
        with unheard(), torch.autocast(output.device.type, enabled=False):  # the cosines run in no bfloat16
            found = geometry(vectors)
        if len(vectors) < 2:  # there is no pair
            del found["c_value"], found["abs_cosine"]
        if site.kind == "residual":
            found = {"variance": output.var(correction=0)} | found
        prefix = "residual_" if site.kind == "residual" else ""
        return {f"{prefix}{name}/{site.layer}": value for name, value in found.items()}

    def _vectors(self, x: Tensor, axis: int | None) -> Tensor:
        """(n, d): (N T, C) of tokens, else (N, C H W)."""
        vectors = to_rows(x, -1) if x.ndim == 3 and axis == -1 else to_rows(x.flatten(1), 1)
        if len(vectors) <= self.max_vectors:
            return vectors
        indices = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[: self.max_vectors]
        return vectors[indices.to(vectors.device)]


def outliers(values: Tensor) -> dict[str, Tensor]:
    """Of `values` (..., n, C): `outlier_ratio`, the largest absolute value over the median of absolute values (Sun et
    al. 2024, Massive Activations in Large Language Models, arXiv:2402.17762), (...)."""
    sizes = values.abs().flatten(-2)
    return {"outlier_ratio": sizes.amax(-1) / sizes.median(-1).values}


HIDDEN = -3e4  # masks add -inf, or the lowest number of the type, -65504 in float16


def attention_numbers(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> dict[str, Tensor]:
    """Where attention looks; the arguments are those of torch's `scaled_dot_product_attention`, (..., heads, T, d).

    Means over the queries that see two tokens or more, and over heads and samples:

    - attention_entropy: of the weights of tokens, divided by the log of their number; 1 looks at all alike, 0 at one
    - attention_on_first: the weight of token 0, the sink of Xiao et al. 2023, arXiv:2309.17453
    - attention_on_sink: that of a learned sink, a first key without value, if there is one
    """
    if enable_gqa:  # several queries' heads share a key's
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = (
        query.float() @ key.float().mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    )  # (..., T, S)
    if is_causal:
        scores = scores.masked_fill(scores.new_ones(scores.shape[-2:]).tril() == 0, -math.inf)
    if attn_mask is not None:
        boolean = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if boolean else scores + attn_mask
    weights = scores.softmax(-1)
    found = {}
    if not value[..., 0, :].any():  # a learned sink, with a query of its own
        scores, weights = scores[..., 1:, 1:], weights[..., 1:, :]
        sink, weights = weights[..., 0], weights[..., 1:]
        found["attention_on_sink"] = sink.mean()
        weights = weights / (1 - sink[..., None])
    seen = (scores > HIDDEN).sum(-1)  # (..., T)
    entropy = -torch.special.xlogy(weights, weights).sum(-1) / seen.clamp_min(2).log()
    several = seen >= 2
    count = several.sum().clamp_min(1)
    for name, numbers in (("attention_entropy", entropy), ("attention_on_first", weights[..., 0])):
        found[name] = numbers.where(several, 0).sum() / count  # a query that sees nothing has no weights
    return found


class _AttentionCalls(TorchFunctionMode):
    """Hands each call of torch's fused attention to a listener, before it runs unchanged."""

    def __init__(self, listener: Callable[..., None]) -> None:
        super().__init__()
        self.listener = listener

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is F.scaled_dot_product_attention:
            self.listener(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class Stream(Monitor):
    """What blocks do to the residual stream of the held-out batch:

    - `branch_share/<layer>`: |f| / |x|, the mean over tokens of what a branch adds over what it adds to, by L2 norms
    - `left_out_loss/<block>`: loss without a block's branches minus the loss with all, in nats
    - `outlier_ratio/<layer>`: see `outliers`, of the stream, or of the inputs of norms in a network without one;
      `outlier_on_first/<layer>`: the share of texts whose largest value stands at token 0
    - `attention_entropy/<layer>`, `attention_on_first/<layer>`, `attention_on_sink/<layer>`: see `attention_numbers`,
      of each call of torch's fused attention, under the name of the linear map before it

    One forward pass, and one more for each block that has branches.
    """

    def __init__(self, *, every_n_steps: int | None, batch_size: int = 64) -> None:
        super().__init__(every_n_steps=every_n_steps, batch_size=batch_size)

    def keys(self) -> set[str]:
        attention = {f"attention_{what}" for what in ("entropy", "on_first", "on_sink")}
        return attention | {"branch_share", "left_out_loss", "outlier_ratio", "outlier_on_first"}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        values: dict[str, Tensor] = {}
        branches: dict[str, Tensor] = {}  # layer -> what its branch adds to the stream
        sites, last_linear = sites_of(module), ""
        without = self._losses_without(module, batches.held_out, sites)
        kind = "residual" if any(site.kind == "residual" for site in sites) else "norm"
        declared = names_its_sites(module)

        def note_linear(layer: str, *_: Any) -> None:
            nonlocal last_linear
            last_linear = layer

        def note_branch(layer: str, _: nn.Module, inputs: tuple, output: Tensor) -> None:
            branches[layer] = output

        def measure_stream(site: Site, x: Tensor) -> None:
            if site.kind == kind:
                axis, branch = axis_at(site, x, declared), branches.get(site.layer)
                values.update(_stream_numbers(site.layer, x.detach(), axis, branch))

        for site in sites:
            if site.kind == "linear":
                site.module.register_forward_pre_hook(functools.partial(note_linear, site.layer))
            if site.kind == "branch":
                site.module.register_forward_hook(functools.partial(note_branch, site.layer))
            if site.kind == kind:
                read_input(site, measure_stream)
        self.handles.append(listen(module, sites, None if declared else measure_stream))

        def measure_attention(*args: Any, **options: Any) -> None:
            first = args[0] if args else options["query"]
            with unheard(), torch.autocast(first.device.type, enabled=False):
                found = attention_numbers(*args, **options)
            values.update({f"{name}/{last_linear}": value for name, value in found.items()})

        with torch.no_grad(), _AttentionCalls(measure_attention):
            loss = loss_of(module, batches.held_out)
        return values | {f"left_out_loss/{block}": value - loss for block, value in without.items()}

    @staticmethod
    @torch.no_grad()
    def _losses_without(module: nn.Module, batch: Any, sites: list[Site]) -> dict[str, Tensor]:
        """The loss without each block's branches."""
        blocks: dict[str, list[nn.Module]] = {}
        for site in sites:
            if site.kind == "branch":
                blocks.setdefault(site.layer.split("_")[0], []).append(site.module)
        found = {}
        for block, summands in blocks.items():
            handles = [m.register_forward_hook(lambda m, i, y: torch.zeros_like(y)) for m in summands]
            found[block] = loss_of(module, batch)
            for handle in handles:
                handle.remove()
        return found


def _stream_numbers(layer: str, x: Tensor, axis: int | None, branch: Tensor | None) -> dict[str, Tensor]:
    """Tag -> number of the stream x behind a layer, to which its branch was added; `axis` is that of the channels."""
    with unheard():
        found = outliers(to_rows(x, -1))
    if x.ndim == 3 and axis == -1:
        largest = x.abs().amax(-1).argmax(-1)  # (N)
        found["outlier_on_first"] = (largest == 0).float().mean()
    if branch is not None:
        before, size = (torch.linalg.vector_norm(y.float(), dim=-1) for y in (x - branch, branch))
        found["branch_share"] = (size / before).mean()
    return {f"{name}/{layer}": value for name, value in found.items()}
