"""torch's random numbers over an interruption."""

from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist


class GeneratorState(pl.Callback):
    """Every checkpoint gets the state of torch's generators in each process, so that dropout resumes in its stream."""

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
            # Where there were fewer processes, the new ones go on with what they have.
            if trainer.global_rank < len(states):
                own = states[trainer.global_rank].cpu()
                if kind == "cpu":
                    torch.set_rng_state(own)
                elif module.device.type == kind:
                    torch.cuda.set_rng_state(own, module.device)


def of_each_process(value: Any) -> list[Any]:
    """The values of all processes that train together, in their order."""
    if not (dist.is_available() and dist.is_initialized()):
        return [value]
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
