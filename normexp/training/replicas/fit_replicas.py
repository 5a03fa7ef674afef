"""Train several runs together, all replicas of one network in one module: one pass trains them all, and each ends as
it would have ended alone."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytorch_lightning as pl
import torch
from rich.console import Console
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.dropout import _DropoutNd
from torch.optim import SGD, Adagrad, Adam, AdamW, NAdam, RAdam, RMSprop
from torchvision.ops import StochasticDepth

from normexp.data.base import BatchLoader, DataModule
from normexp.lit_model import LitModel, loss_and_right
from normexp.norms import NoisyBatchNorm, PowerNorm
from normexp.training.checkpoint import GeneratorState, checkpoints_of
from normexp.training.fit import needs_population_statistics, resumed_from, trainer_of
from normexp.training.lightning import keep_freed_memory
from normexp.training.progress import TimedProgressBar
from normexp.training.recorder import open_records
from normexp.training.replicas.replica import Replica, put_together
from normexp.training.survive import StopOnSignal

if TYPE_CHECKING:
    from normexp.training.parts import Parts


class ReplicaModule(pl.LightningModule):
    """Trains R LitModels of one configuration. They differ in weights, batches and learning rates.

    One backward pass goes through the sum of the R losses. No value of one replica enters the loss of another, so each
    gets its own gradient. Optimizers must work elementwise. After `bind`, the weights of the LitModels are views of
    this module's weights. So training here trains them, and they can be watched, evaluated and saved like any run.

    Shapes: inputs (R N, ...), targets (R N) or (R N, T), one replica after the other; weights (R, *shape).

    Args:
        views: the R LitModels, with their initial weights.
        rates: their learning rates. torch's optimizers take one rate, so the step is taken with the largest and then
            scaled down. This is exact for optimizers whose step is proportional to the rate.
    """

    views: list[LitModel]

    def __init__(self, views: list[LitModel], rates: list[float]):
        super().__init__()
        self.__dict__["views"] = views  # not as submodules, whose weights would count twice
        self.replicas: list[Replica] = []  # whose runs are trained
        self.total_steps = views[0].total_steps
        self.one_by_one = False  # True: the next step goes through the views, where monitors have their hooks
        self.fastest = rates.index(max(rates))
        self.shares = [rate / (max(rates) or 1.0) for rate in rates]  # of the largest rate
        self.model = copy.deepcopy(views[0].model)
        own = [weights_of(view.model) for view in views]
        for name, of_all in weights_of(self.model).items():
            of_all.data = torch.stack([weights[name].detach() for weights in own])

    def bind(self) -> None:
        """Make the weights of the LitModels views of this module's weights, with the same device and precision."""
        self.weights = weights_of(self.model)
        self.layers = list(self.model.named_modules())
        for index, view in enumerate(self.views):
            own = weights_of(view.model)
            for name, of_all in self.weights.items():
                own[name].data = of_all.data[index]

    @property
    def active(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.stopped_at is None]

    def save(self, trainer: pl.Trainer) -> None:
        """On an interruption, save a separate checkpoint for every replica."""
        for replica in self.active:
            replica.last.save(cast(pl.Trainer, replica))
        self.write_checkpoints()

    def write_checkpoints(self) -> None:
        """Write the checkpoints of all replicas to the disk at once, after each has saved its own."""
        checkpoints_of(self.trainer).write_waiting()

    on_validation_end = on_train_epoch_end = write_checkpoints

    def on_validation_epoch_end(self) -> None:
        for replica in self.active:
            replica.validate()

    def on_train_batch_start(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        self.one_by_one = any(replica.watching for replica in self.active)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> dict[str, Tensor]:
        inputs, targets = (part.unflatten(0, (len(self.views), -1)) for part in batch)
        losses, accuracies = (self.in_turn if self.one_by_one else self.at_once)(inputs, targets)
        return {"loss": losses.sum(), "batch_loss": losses.detach(), "batch_accuracy": accuracies}

    def at_once(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Losses and accuracies of all replicas, (R) each. Raises ValueError with one line for a layer that vmap cannot
        compute, or whose state it would lose."""

        def one(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            given = dict(weights)
            loss, right, count = loss_and_right(functional_call(self.model, weights, (x,)), y)
            require_same(given, weights)  # functional_call puts there what a layer set instead
            return loss, right / count

        before = [dict(vars(layer)) for _, layer in self.layers]
        try:
            # Attention's fused kernels do not support vmap on every device.
            with sdpa_kernel(SDPBackend.MATH):
                results = torch.vmap(one)(self.weights, inputs, targets)
            for (name, layer), old in zip(self.layers, before, strict=True):
                require_same(old, vars(layer), f"{name}.")
        except RuntimeError as error:
            raise ValueError(
                f"replicas: cannot train together ({str(error).strip().splitlines()[0]}); set `one_by_one = True` in "
                "the class of that layer, or leave replicas out"
            ) from error
        return results

    def in_turn(self, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        outputs = []
        for view, *batch in zip(self.views, inputs, targets, strict=True):
            view.zero_grad()
            outputs.append(view.training_step((batch[0], batch[1]), 0))
        losses, accuracies = (torch.stack([o[key] for o in outputs]) for key in ("loss", "batch_accuracy"))
        return losses, accuracies

    def on_after_backward(self) -> None:
        """After a backward pass through the views, copy their gradients to this module's weights."""
        if not self.one_by_one:
            return
        for name, of_all in self.model.named_parameters():
            found = (view.model.get_parameter(name).grad for view in self.views)
            if gradients := [gradient for gradient in found if gradient is not None]:
                of_all.grad = torch.stack(gradients)

    def configure_optimizers(self):
        self.bind()  # now that the weights lie on the device
        weights = list(self.model.parameters())
        fused = not self.trainer.precision.startswith("16")
        made = self.views[self.fastest].optimizers_of(weights, fused=fused)
        if slower := [index for index, share in enumerate(self.shares) if share != 1.0]:
            optimizer = made["optimizer"] if isinstance(made, dict) else made
            some = slice(slower[0], slower[-1] + 1)
            shares = torch.tensor(self.shares[some], dtype=torch.float64).to(weights[0])
            moved = [weight.detach()[some] for weight in weights]
            along = [shares.view(-1, *[1] * (weight.dim() - 1)) for weight in weights]
            before = [torch.empty_like(weight) for weight in moved]

            # In place: the weights of all replicas are larger than the processor's caches, so each copy counts.
            def remember(*_) -> None:
                for old, weight in zip(before, moved, strict=True):
                    old.copy_(weight)

            def shrink(*_) -> None:
                for old, weight, share in zip(before, moved, along, strict=True):
                    torch.lerp(old, weight, share, out=weight)

            optimizer.register_step_pre_hook(remember)
            optimizer.register_step_post_hook(shrink)
        return made

    def configure_gradient_clipping(
        self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None
    ) -> None:
        """Clip each replica by its own gradient norm, as `clip_grad_norm_` clips a single run."""
        if not gradient_clip_val or gradient_clip_algorithm == "value":  # no clipping, or number by number
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)
            return
        gradients = [weight.grad for weight in self.model.parameters() if weight.grad is not None]
        norms = torch.linalg.vector_norm(torch.cat([g.reshape(len(g), -1) for g in gradients], dim=1), dim=1)
        factors = (gradient_clip_val / (norms + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(factors.view(-1, *[1] * (gradient.dim() - 1)))

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        """Do nothing: each replica evaluates itself."""


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, by name."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def require_same(before: dict[str, Any], after: dict[str, Any], of: str = "") -> None:
    """Raise RuntimeError if a step put another value into the state of a layer."""
    for name, value in after.items():
        if value is not before.get(name):
            raise RuntimeError(f"{of}{name} is set anew at each step; update a buffer in place")


ELEMENTWISE = (SGD, Adam, AdamW, NAdam, RAdam, RMSprop, Adagrad)


def why_not(parts: "Parts") -> str | None:
    """In a few words, why this run is not trained together with runs of other seeds and learning rates; None if it is.
    A layer of your own can set `one_by_one = True` in its class."""
    config, module = parts.config, parts.module
    trainer, optimizer = config["trainer"], module.make_optimizer.func
    layers = list(module.model.modules())
    reasons = {
        "nothing is trained": config["max_steps"] == 0 or config["fast_dev_run"],
        f"compile={str(config['compile']).lower()}": config["compile"],
        "early stopping ends each at a step of its own": config["early_stopping"] is not None,
        "label smoothing": config["label_smoothing"] > 0,
        "tta=flip": module.tta != "none",
        "gradients are accumulated": trainer.get("accumulate_grad_batches", 1) != 1,
        "several devices": trainer.get("devices", 1) != 1,
        "precision=16 scales the loss of all together": str(trainer.get("precision")).startswith("16"),
        "dropout would draw other masks than alone": any(
            isinstance(layer, _DropoutNd | StochasticDepth) and layer.p > 0 for layer in layers
        ),
        f"{optimizer.__name__} does not work elementwise": optimizer not in ELEMENTWISE,
        "population statistics are recomputed run by run": needs_population_statistics(module),
        "freeze_after reads the number of steps": any(
            getattr(layer, "freeze_after", None) is not None for layer in layers
        ),
        "NoisyBatchNorm draws numbers": any(isinstance(layer, NoisyBatchNorm) for layer in layers),
        "PowerNorm keeps a state in its backward pass": any(isinstance(layer, PowerNorm) for layer in layers),
        "a layer says one_by_one": any(getattr(layer, "one_by_one", False) for layer in layers),
    }
    return next((words for words, holds in reasons.items() if holds), None)


class ReplicaLoader(BatchLoader):
    """Batches (R N, ...): the batches of all replicas' loaders, one after the other."""

    def __init__(self, own: list[DataModule]):
        self.loaders = [data.train_dataloader() for data in own]
        first = self.loaders[0]
        made = {"augmentation": first.augmentation, "tasks": first.tasks, "progress": first.progress}
        super().__init__(first.rows, first.order, **made)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if all(loader.rows is self.rows for loader in self.loaders):
            return super().__iter__()
        batches = zip(*self.loaders, strict=True)
        return ([torch.cat(side) for side in zip(*batch, strict=True)] for batch in batches)

    def plan_epoch(self, epoch: int) -> tuple[Tensor, Tensor | None]:
        indices, draws = zip(*(loader.plan_epoch(epoch) for loader in self.loaders), strict=True)
        return torch.cat(indices, 1), None if draws[0] is None else torch.cat(draws, 1)

    def load_state_dict(self, state: dict[str, int]) -> None:
        super().load_state_dict(state)
        for loader in self.loaders:
            loader.load_state_dict(state)


def fit_replicas(all_parts: Sequence["Parts"], folders: Sequence[Path], console: Console) -> None:
    """Train to the end. If the folders have a `last.ckpt`, resume from it; all must be of the same step. Each summary
    is written when its replica ends. A diverged replica ends before the others."""
    keep_freed_memory()
    rates = [parts.module.make_optimizer.keywords.get("lr", parts.config["lr"]) for parts in all_parts]
    module = ReplicaModule([parts.module for parts in all_parts], rates)
    saved = [folder / "checkpoints" / "last.ckpt" for folder in folders]
    begun = all(path.exists() for path in saved)
    resumed = list(map(resumed_from, all_parts, saved)) if begun else []
    with contextlib.ExitStack() as stack:
        for index, (parts, folder) in enumerate(zip(all_parts, folders, strict=True)):
            loggers = stack.enter_context(open_records(parts, folder, resumed[index] if resumed else None))
            replica = Replica(index, len(all_parts), parts, folder, loggers, module.shares[index])
            module.replicas.append(replica)
        stop = StopOnSignal(module.save)
        bar = TimedProgressBar([replica.recorder for replica in module.replicas], console)
        callbacks = [stop, *module.replicas, bar, GeneratorState()]
        together = put_together(resumed, module.fastest) if resumed else None
        trainer = trainer_of(
            all_parts[0], module, callbacks, together, console, logger=False, enable_checkpointing=False
        )
        for parts in all_parts:
            parts.data.trainer = trainer
        loader = ReplicaLoader([parts.data for parts in all_parts])
        with stop:
            val = all_parts[0].data.val_dataloader()
            with checkpoints_of(trainer).at_once():
                trainer.fit(module, loader, val, ckpt_path=saved[0] if resumed else None)
            for replica in module.active:
                replica.finish()
