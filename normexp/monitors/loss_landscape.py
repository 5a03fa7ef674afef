"""The loss around the weights: how smooth it is along its gradient, and its curvature; and around the inputs."""

import functools
from collections.abc import Callable, Mapping, Sequence

import torch
from pytorch_lightning import LightningModule
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from normexp.format import require_at_least
from normexp.monitors.base import Monitor
from normexp.monitors.batch_statistics import error_on
from normexp.monitors.batches import WITH_ACCURACY, Batches, images_of
from normexp.monitors.guard import flat, gradients_of, has_reentrant, loss_of, trained_parameters, weights


def along_gradient(
    loss: Callable[[], Tensor], parameters: Sequence[nn.Parameter], step_sizes: Sequence[float]
) -> dict[str, Tensor]:
    """Loss and gradient at w - s g for each step size s, where g is the gradient at w.

    - landscape_loss_min, landscape_loss_max: range of the loss L(w - s g)
    - gradient_predictiveness_min, ..._max: range of the distance |g - g(w - s g)|; a small distance means that the
      gradient predicts itself
    - effective_beta: the largest |g - g(w - s g)| / |s g|, the smoothness along this direction
    """
    origin = gradients_of(loss(), parameters)
    start = [p.detach() for p in parameters]
    losses, distances = [], []
    for size in step_sizes:
        with weights({p: w - size * g for p, w, g in zip(parameters, start, origin, strict=True)}):
            value = loss()
            gradient = gradients_of(value, parameters)
        losses.append(value.detach())
        distances.append(flat([a - b for a, b in zip(gradient, origin, strict=True)]).norm())
    loss_values, distance = torch.stack(losses), torch.stack(distances)  # (steps,) each
    moved = flat(origin).norm() * torch.tensor(list(step_sizes), dtype=distance.dtype, device=distance.device)
    return {
        "landscape_loss_min": loss_values.min(),
        "landscape_loss_max": loss_values.max(),
        "gradient_predictiveness_min": distance.min(),
        "gradient_predictiveness_max": distance.max(),
        "effective_beta": (distance / moved).max(),
    }


class Smoothness(Monitor):
    """`landscape_loss_min`, `landscape_loss_max`, `gradient_predictiveness_min`, `gradient_predictiveness_max` and
    `effective_beta`, each `/network`: of the training batch's loss by all parameters.

    Args:
        step_sizes: distances along the gradient, in units of the gradient, equal in every arm. The default is the
            range of the paper: half to four times its learning rate of 0.1.
    """

    def __init__(
        self, *, every_n_steps: int | None, step_sizes: Sequence[float] = (0.05, 0.1, 0.2, 0.3, 0.4)
    ) -> None:
        super().__init__(every_n_steps=every_n_steps)
        if not step_sizes or min(step_sizes) <= 0:
            raise ValueError(f"step_sizes={list(step_sizes)}: give at least one, all positive")
        self.step_sizes = list(step_sizes)

    def keys(self) -> set[str]:
        range_of = ("landscape_loss", "gradient_predictiveness")
        return {f"{name}_{end}" for name in range_of for end in ("min", "max")} | {"effective_beta"}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        loss = functools.partial(loss_of, module, batches.training)
        values = along_gradient(loss, trained_parameters(module), self.step_sizes)
        return {f"{name}/network": value for name, value in values.items()}


def hessian_product(loss: Tensor, parameters: Sequence[nn.Parameter]) -> Callable[[Tensor], Tensor]:
    """v (P,) -> H v (P,), by a second backward pass through the gradient (Pearlmutter 1994)."""
    if has_reentrant(loss):
        raise ValueError(
            "use_reentrant=True: such a checkpoint has no second derivatives; set use_reentrant=False"
        )
    gradient = flat(torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True))

    def product(vector: Tensor) -> Tensor:
        return flat(
            torch.autograd.grad(gradient, parameters, vector, retain_graph=True, materialize_grads=True)
        ).detach()

    return product


def lanczos(product: Callable[[Tensor], Tensor], start: Tensor, iterations: int) -> Tensor:
    """Eigenvalues, ascending, of a symmetric operator restricted to the Krylov space of `start` (P,). The outermost
    ones approach the operator's from inside. Each new vector is made orthogonal to all others twice."""
    basis = start[None] / torch.linalg.vector_norm(start)  # (k, P)
    diagonal, beside = [], []
    for _ in range(min(iterations, len(start))):
        image = product(basis[-1])
        diagonal.append(basis[-1] @ image)
        for _ in range(2):
            image = image - basis.T @ (basis @ image)
        beside.append(torch.linalg.vector_norm(image))
        basis = torch.cat([basis, (image / beside[-1].clamp_min(torch.finfo(image.dtype).tiny))[None]])
    middle, below = (torch.stack(values).cpu().double() for values in (diagonal, beside))
    tridiagonal = torch.diag(middle) + torch.diag(below[:-1], 1) + torch.diag(below[:-1], -1)
    if not tridiagonal.isfinite().all():
        return torch.full((len(diagonal),), float("nan"))
    return torch.linalg.eigvalsh(tridiagonal)


class HessianTopEigenvalue(Monitor):
    """`hessian_top_eigenvalue/network` and `hessian_lowest_eigenvalue/network`: of the held-out batch's loss by all
    trained parameters. The lowest is negative if the loss is not convex.

    Lanczos gives a lower bound of the largest eigenvalue and an upper bound of the lowest. More `iterations` tighten
    both; each costs about two backward passes. Fast kernels have no second derivative. So norms with an attribute
    `native` run their written formula, and attention runs its math kernel.
    """

    def __init__(self, *, every_n_steps: int | None, batch_size: int = 512, iterations: int = 15) -> None:
        super().__init__(every_n_steps=every_n_steps, batch_size=batch_size)
        require_at_least("iterations", iterations, 1)
        self.iterations = iterations

    def keys(self) -> set[str]:
        return {"hessian_top_eigenvalue", "hessian_lowest_eigenvalue"}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        for child in module.modules():
            if hasattr(child, "native"):
                child.native = False
        parameters = trained_parameters(module)
        generator = torch.Generator().manual_seed(0)
        start = torch.randn(sum(p.numel() for p in parameters), generator=generator).to(parameters[0])
        with sdpa_kernel(SDPBackend.MATH):
            product = hessian_product(loss_of(module, batches.held_out), parameters)
            eigenvalues = lanczos(product, start, self.iterations)
        return {
            "hessian_top_eigenvalue/network": eigenvalues[-1],
            "hessian_lowest_eigenvalue/network": eigenvalues[0],
        }


def attacked(loss: Callable[[Tensor], Tensor], x: Tensor, radius: float, steps: int) -> Tensor:
    """Inputs near x, (N, C, ...), with a larger loss: projected gradient descent (Madry et al. 2018, arXiv:1706.06083)
    without its random start.

    x' = x; `steps` times x' = clip(x' + 2.5 r / steps * sign(dloss / dx')), to at most r from x, and to the values
    between the lowest and the highest of the channel in the batch. r is `radius` times the distance of these two.
    """
    others = [dim for dim in range(x.ndim) if dim != 1]
    low, high = x.amin(others, keepdim=True), x.amax(others, keepdim=True)
    r = radius * (high - low)
    changed = x
    for _ in range(steps):
        changed = changed.detach().requires_grad_()
        (slope,) = torch.autograd.grad(loss(changed), changed)
        changed = (changed + 2.5 / steps * r * slope.sign()).clamp(x - r, x + r).clamp(low, high)
    return changed.detach()


class AdversarialNoise(Monitor):
    """`clean_error/network` and `adversarial_error/network`: share of wrong answers on the held-out images, and on
    those that `attacked` makes of them, in eval mode. `training_step` must return `batch_accuracy`."""

    remedy = WITH_ACCURACY

    def __init__(
        self, *, every_n_steps: int | None, batch_size: int = 512, radius: float = 0.03, steps: int = 10
    ) -> None:
        super().__init__(every_n_steps=every_n_steps, batch_size=batch_size)
        require_at_least("steps", steps, 1)
        self.radius, self.steps = radius, steps

    def keys(self) -> set[str]:
        return {"clean_error", "adversarial_error"}

    def compute(self, module: LightningModule, batches: Batches, step: int) -> Mapping[str, Tensor]:
        x, y = images_of(batches.held_out, type(self).__name__)
        module.eval()
        near = attacked(lambda inputs: loss_of(module, (inputs, y)), x, self.radius, self.steps)
        found = {"clean_error": error_on(module, x, y), "adversarial_error": error_on(module, near, y)}
        return {f"{name}/network": value for name, value in found.items() if value is not None}
