"""A careless callback, as in a notebook, for comparison with the light set of monitors."""

import pytorch_lightning as pl
import torch
from torch import nn


class Naive(pl.Callback):
    """Measures what the light set measures, in the obvious way: at every step, and each number is copied to the host.

    The numbers are not all the same: percentiles are of all values, gradient norms and update ratios are of each
    parameter, and there are no saturation and no growth rates.
    """

    def __init__(self):
        self.values, self.handles, self.before = {}, [], {}

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        for site in module.model.sites():
            if site.kind == "activation":
                self.handles.append(site.module.register_forward_hook(self.hook(site.layer)))

    def hook(self, layer: str):
        def record(activation: nn.Module, inputs: tuple, output: torch.Tensor) -> None:
            for place, x in (("preactivation", inputs[0].detach()), ("activation", output.detach())):
                self.values[f"{place}_mean/{layer}"] = x.mean().item()
                self.values[f"{place}_std/{layer}"] = x.std().item()
                for name, level in (("p15", 0.15), ("p50", 0.5), ("p85", 0.85)):
                    self.values[f"{place}_{name}/{layer}"] = torch.quantile(
                        x.flatten()[: 2**24], level
                    ).item()
            dead = (output <= 0).flatten(2).all(2) if output.ndim == 4 else output <= 0
            self.values[f"derivative_near_zero_fraction/{layer}"] = (output <= 0).float().mean().item()
            self.values[f"dead_fraction/{layer}"] = dead.flatten(0, -2).all(0).float().mean().item()
            output.register_hook(keep_gradient)

        def keep_gradient(gradient: torch.Tensor) -> None:
            self.values[f"activation_gradient_norm/{layer}"] = gradient.norm().item()

        return record

    def on_before_optimizer_step(self, trainer, module, optimizer):
        for name, parameter in module.named_parameters():
            self.values[f"parameter_gradient_norm/{name}"] = parameter.grad.norm().item()
            self.before[name] = parameter.detach().clone()

    def on_train_batch_end(self, trainer, module, *_):
        for name, parameter in module.named_parameters():
            change = (parameter.detach() - self.before[name]).norm().item()
            self.values[f"update_ratio/{name}"] = change / max(self.before[name].norm().item(), 1e-12)
        for logger in trainer.loggers:
            logger.log_metrics(self.values, trainer.global_step)
        while self.handles:
            self.handles.pop().remove()
