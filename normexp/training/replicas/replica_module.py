"""Replicas of one network in one module: parameters and buffers stacked along a leading axis, one pass for all."""

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from normexp.lit_model import LitModel, loss_and_right


class ReplicaModule(pl.LightningModule):
    """Trains R LitModels of one configuration, which differ in their weights, batches and learning rates.

    The sum of the R losses goes back through one graph; each replica's gradient is its own, since no value of one
    enters another's loss. Optimizers must work elementwise. After `bind` the parameters of the LitModels are views of
    those here: what trains here trains them, and they can be watched, evaluated and saved like any run.

    Shapes: inputs (R, N, ...), targets (R, N) or (R, N, T); stacked parameters (R, *shape).

    Args:
        views: the R LitModels, with their initial weights.
        rates: their learning rates. torch's optimizers take one rate, so steps are taken with the largest and
            shrunk: exact for optimizers whose step is proportional to the rate.
    """

    def __init__(self, views: list[LitModel], rates: list[float]):
        super().__init__()
        self.__dict__["views"] = views  # no submodules: their weights are part of those here
        self.total_steps = views[0].total_steps
        self.one_by_one = False  # the next step goes through the views, so that monitors' hooks see it
        models = [view.model for view in views]
        self.names = [name for name, _ in models[0].named_parameters()]
        self.buffer_names = [name for name, _ in models[0].named_buffers()]
        self.weights = nn.ParameterList(
            nn.Parameter(
                torch.stack([model.get_parameter(name).detach() for model in models]),
                requires_grad=models[0].get_parameter(name).requires_grad,
            )
            for name in self.names
        )
        for index, name in enumerate(self.buffer_names):
            self.register_buffer(f"buffer{index}", torch.stack([model.get_buffer(name) for model in models]))
        self.fastest = rates.index(max(rates))
        self.shares = [rate / (max(rates) or 1.0) for rate in rates]  # of the largest rate
        self.factors = None if set(self.shares) == {1.0} else torch.tensor(self.shares, dtype=torch.float64)

    def stacked_buffers(self) -> dict[str, Tensor]:
        return {name: self.get_buffer(f"buffer{index}") for index, name in enumerate(self.buffer_names)}

    def own_names(self) -> dict[str, str]:
        """What stands stacked under a name here, and its name in each replica's network."""
        weights = {f"weights.{index}": name for index, name in enumerate(self.names)}
        return weights | {f"buffer{index}": name for index, name in enumerate(self.buffer_names)}

    def bind(self) -> None:
        """Make the weights of the LitModels views of those here, on their device and in their precision."""
        for replica, view in enumerate(self.views):
            for name, stacked in zip(self.names, self.weights, strict=True):
                view.model.get_parameter(name).data = stacked.data[replica]
            for name, stacked in self.stacked_buffers().items():
                owner, _, leaf = name.rpartition(".")
                view.model.get_submodule(owner)._buffers[leaf] = stacked[replica]
            view.train()

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        losses, right, count = self.alone(*batch) if self.one_by_one else self.together(*batch)
        return {"loss": losses.sum(), "batch_loss": losses.detach(), "batch_accuracy": right / count}

    def together(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, int]:
        skeleton = self.views[0].model

        def one(weights: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, y: Tensor):
            loss, right, _ = loss_and_right(functional_call(skeleton, (weights, buffers), (x,)), y)
            return loss, right

        weights = dict(zip(self.names, self.weights, strict=True))
        # The fused kernels of attention have no rule for vmap on every device.
        with sdpa_kernel(SDPBackend.MATH):
            losses, right = torch.vmap(one)(weights, self.stacked_buffers(), inputs, targets)
        return losses, right, targets[0].numel()

    def alone(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, int]:
        for view in self.views:
            view.zero_grad()
        results = [
            view.losses_of(batch)
            for view, batch in zip(self.views, zip(inputs, targets, strict=True), strict=True)
        ]
        return (
            torch.stack([loss for loss, _, _ in results]),
            torch.stack([r for _, r, _ in results]),
            results[0][2],
        )

    def gather_gradients(self) -> None:
        """After a backward pass through the views: their gradients, stacked, are those of the weights here."""
        for name, stacked in zip(self.names, self.weights, strict=True):
            gradients = [view.model.get_parameter(name).grad for view in self.views]
            if gradients[0] is not None:
                stacked.grad = torch.stack(gradients)

    def configure_optimizers(self):
        made = self.views[self.fastest].optimizers_of(
            list(self.weights), fused=not self.trainer.precision.startswith("16"), replica_axes=1
        )
        optimizer = made["optimizer"] if isinstance(made, dict) else made
        if self.factors is not None:
            self.factors = self.factors.to(self.weights[0])  # once, not at every step
            optimizer.register_step_pre_hook(self._remember)
            optimizer.register_step_post_hook(self._shrink)
        return made

    def _remember(self, *_) -> None:
        self._before = [weight.detach().clone() for weight in self.weights]

    def _shrink(self, *_) -> None:
        with torch.no_grad():
            for before, weight in zip(self._before, self.weights, strict=True):
                factors = self.factors.view(-1, *[1] * (weight.dim() - 1))
                weight.copy_(torch.lerp(before, weight, factors))

    def configure_gradient_clipping(
        self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None
    ) -> None:
        """Clip each replica by its own norm, as `clip_grad_norm_` would clip it alone."""
        gradients = [weight.grad for weight in self.weights if weight.grad is not None]
        if not gradient_clip_val:  # to Lightning 0 is no clipping too
            return
        if gradient_clip_algorithm == "value":
            for gradient in gradients:
                gradient.clamp_(-gradient_clip_val, gradient_clip_val)
            return
        lengths = [torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients]
        norms = torch.stack(lengths)  # (weights, R)
        factors = (gradient_clip_val / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factors.view(-1, *[1] * (gradient.dim() - 1)))

    def on_validation_epoch_start(self) -> None:
        for view in self.views:
            view.eval()
            view.on_validation_epoch_start()

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        for view in self.views:
            view.validation_step(batch, batch_idx)

    def on_validation_epoch_end(self) -> None:
        for view in self.views:
            view.validation_result = view.evaluation_result()
            view.train()
