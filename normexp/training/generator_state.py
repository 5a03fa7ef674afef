"""Keep torch's random streams across an interruption."""

import pytorch_lightning as pl
import torch

from normexp.training.each_process import of_each_process, own_of


class GeneratorState(pl.Callback):
    """Saves the state of torch's generators in each process to every checkpoint, so dropout continues its stream."""

    def __init__(self) -> None:
        self._restored: dict[str, list[torch.Tensor]] = {}

    def on_save_checkpoint(self, trainer, module, checkpoint) -> None:
        checkpoint["random_state"] = {"cpu": of_each_process(torch.get_rng_state())}
        if module.device.type == "cuda":
            checkpoint["random_state"]["cuda"] = of_each_process(torch.cuda.get_rng_state(module.device))

    def on_load_checkpoint(self, trainer, module, checkpoint) -> None:
        self._restored = checkpoint["random_state"]

    def on_train_start(self, trainer, module) -> None:
        for kind, states in self._restored.items():
            if kind == "cpu":
                torch.set_rng_state(own_of(states).cpu())
            elif module.device.type == kind:
                torch.cuda.set_rng_state(own_of(states).cpu(), module.device)
