"""The rule for which replicas cannot be trained together."""

from torch.nn.modules.dropout import _DropoutNd
from torch.optim import SGD, Adagrad, Adam, AdamW, NAdam, RAdam, RMSprop
from torchvision.ops import StochasticDepth

from normexp.config.run_parts import Parts
from normexp.norms import NoisyBatchNorm, PowerNorm
from normexp.training.precise_batchnorm import needs_population_statistics

ELEMENTWISE = (SGD, Adam, AdamW, NAdam, RAdam, RMSprop, Adagrad)


def why_not(parts: Parts) -> str | None:
    """In a few words, why this run is not trained together with runs of other seeds and learning rates; None if it is.
    A layer of your own can set `one_by_one = True` in its class."""
    config, module = parts.config, parts.module
    trainer, optimizer = config["trainer"], module.make_optimizer.func
    layers = list(module.model.modules())
    reasons = {
        "nothing is trained": config["max_steps"] == 0 or config["fast_dev_run"],
        f"compile={str(config['compile']).lower()}": config["compile"],
        "early stopping ends each at a step of its own": config["early_stopping"] is not None,
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
