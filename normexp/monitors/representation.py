"""How depth changes a batch of samples: do they become parallel, and how many directions are left?"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn

from normexp.monitors.base import Monitor
from normexp.monitors.batches import Batches
from normexp.monitors.guard import loss_of
from normexp.monitors.sites import Site, channel_dim, listen, names_its_sites, sites_of, to_rows, wide


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

    def __init__(self, *, every_n_steps: int, batch_size: int = 256, max_vectors: int = 256) -> None:
        super().__init__(every_n_steps=every_n_steps, batch_size=batch_size)
        if max_vectors < 2:
            raise ValueError(f"max_vectors={max_vectors}: must be at least 2")
        self.max_vectors = max_vectors

    def keys(self) -> set[str]:
        names = {"q_value", "c_value", "abs_cosine", "effective_rank", "orthogonality_gap"}
        return names | {f"residual_{name}" for name in names} | {"residual_variance"}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        values: dict[str, Tensor] = {}
        sites = sites_of(module)
        for site in sites:
            if site.kind in ("activation", "residual"):
                # `untouched` drops this hook at its end.
                site.module.register_forward_hook(self._record(values, site.layer, site.kind))

        def heard(site: Site, x: Tensor) -> Callable[[Tensor], None]:
            return lambda output: self._record(values, site.layer, site.kind)(site.module, (), output)

        called = None if names_its_sites(module) else listen(module, sites, heard)
        with torch.no_grad():
            loss_of(module, batches.held_out)
        if called:
            called.remove()
        return values

    def _record(self, values: dict[str, Tensor], layer: str, kind: str) -> Any:
        def hook(module: nn.Module, inputs: tuple, output: Tensor) -> None:
            prefix = "residual_" if kind == "residual" else ""
            if kind == "residual":
                values[f"residual_variance/{layer}"] = output.var(correction=0)
            # The pass may run in bfloat16, but not the cosines.
            with torch.autocast(output.device.type, enabled=False):
                for name, value in geometry(self._vectors(module, output)).items():
                    values[f"{prefix}{name}/{layer}"] = value

        return hook

    def _vectors(self, module: nn.Module, x: Tensor) -> Tensor:
        tokens = x.ndim == 3 and channel_dim(module, 3) == -1
        vectors = to_rows(x, -1) if tokens else to_rows(x.flatten(1), 1)  # (N T, C), or (N, C H W)
        if len(vectors) <= self.max_vectors:
            return vectors
        places = torch.randperm(len(vectors), generator=torch.Generator().manual_seed(0))[: self.max_vectors]
        return vectors[places.to(vectors.device)]
