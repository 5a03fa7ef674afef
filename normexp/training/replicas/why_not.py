"""Reasons why replicas cannot be trained together."""

import copy

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.optim import SGD, Adagrad, Adam, AdamW, NAdam, RAdam, RMSprop

from normexp.config.run_parts import Parts
from normexp.training.precise_batchnorm import needs_population_statistics
from normexp.training.replicas.replica_module import ReplicaModule

ELEMENTWISE = (SGD, Adam, AdamW, NAdam, RAdam, RMSprop, Adagrad)


def why_not(parts: Parts) -> str | None:
    """In a few words, why this run cannot be trained together with runs of other seeds and learning rates; None if it
    can."""
    config, module = parts.config, parts.module
    trainer, optimizer = config["trainer"], module.make_optimizer.func
    reasons = {
        "nothing is trained": config["max_steps"] == 0 or config["fast_dev_run"],
        f"compile={str(config['compile']).lower()}": config["compile"],
        "early stopping ends each at a step of its own": config["early_stopping"] is not None,
        "gradients are accumulated": trainer.get("accumulate_grad_batches", 1) != 1,
        "several devices": trainer.get("devices", 1) != 1,
        "precision=16 scales the loss of all together": str(trainer.get("precision")).startswith("16"),
        "dropout would draw other masks than alone": any(
            isinstance(layer, _DropoutNd) and layer.p > 0 for layer in module.model.modules()
        ),
        f"{optimizer.__name__} does not work elementwise": optimizer not in ELEMENTWISE,
        "population statistics are recomputed run by run": needs_population_statistics(module),
    }
    return next((words for words, holds in reasons.items() if holds), None) or _rehearse(parts)


def _rehearse(parts: Parts) -> str | None:
    """Run two copies under vmap: layers that read values or draw random numbers fail there. Then run another copy: it
    shows the layers that keep state which vmap would silently lose."""
    *views, plain = [copy.deepcopy(parts.module) for _ in range(3)]
    x, y = parts.data.probe_batch(parts.config["batch_size"])
    x = x.to(next(plain.parameters()).dtype) if x.is_floating_point() else x
    with torch.random.fork_rng(devices=[]):
        try:
            ReplicaModule(views, [1.0, 1.0]).at_once(torch.stack([x, x]), torch.stack([y, y]))
        except (RuntimeError, ValueError) as error:
            return str(error).strip().split("\n")[0]
        before = _memory(plain.model)
        plain.model(x)
    for (layer, name), value in _memory(plain.model).items():
        old = before.get((layer, name))
        if value is not old if isinstance(value, torch.Tensor) else value != old:
            return f"layer {layer} sets self.{name} anew at each step; update a buffer in place"
    return None


def _memory(model: nn.Module) -> dict[tuple[str, str], object]:
    """The state of a network's layers besides its parameters and buffers."""
    return {
        (layer, name): value
        for layer, module in model.named_modules()
        for name, value in {**vars(module), **module._buffers}.items()
        if value is None or isinstance(value, (int, float, str, torch.Tensor))
    }
