"""The three lines of README.md and docs/monitors.md, on a module that knows nothing of this project."""

from pathlib import Path
from typing import get_args

import pytest
import pytorch_lightning as pl
import torch
from small_module import Small, batches, fit
from torch import nn
from torch.utils.data import DataLoader

from normexp.monitors import Activations, CovariateShift
from normexp.monitors.activations import Place, Statistic

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/monitors.md"])
def test_three_lines_of_the_docs_watch_an_own_module(page, tmp_path):
    snippet = (ROOT / page).read_text().split("<!-- tested -->\n```python\n")[1].split("```")[0]

    def trainer(callbacks):
        return pl.Trainer(
            callbacks=callbacks, default_root_dir=tmp_path, max_steps=4, max_epochs=-1, accelerator="cpu",
            log_every_n_steps=1, enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip

    names = {"Trainer": trainer}
    exec(snippet.replace("from pytorch_lightning import Trainer", ""), names)
    names["trainer"].fit(Small(), batches(4))
    activations, gradients = names["watch"][:2]
    assert [step for step, _ in gradients.recorded["gradient_norm/network"]] == [0, 4]
    assert any(tag.startswith("saturated_fraction/") for tag in activations.recorded)


class Validated(Small):
    def validation_step(self, batch, batch_idx):
        pass


@pytest.mark.filterwarnings("ignore:.*shuffling enabled")
def test_the_held_out_batch_is_the_first_validation_batch_and_costs_no_random_number():
    training, validation = batches(4), DataLoader(batches(2, seed=5).dataset, 16, shuffle=True)
    watched, plain = Validated(), Validated()
    monitor = CovariateShift(every_n_steps=1)
    lines = fit(watched, [monitor], steps=4, loader=training, validation=validation)
    fit(plain, [], steps=4, loader=training, validation=validation)
    assert watched.losses == plain.losses
    values = {value for (_, tag), value in lines.values.items() if tag.startswith("input_mean/layer00")}
    assert len(values) == 1  # it never changes


class Padded(Small):
    """Sequences (N, T, 6) of unequal length, padded; its classifier sees the mean of the real tokens."""

    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Sigmoid(), nn.Linear(8, 3))

    def padding_mask(self, batch):
        tokens, lengths, _ = batch
        return torch.arange(tokens.shape[1]) < lengths[:, None]  # (N, T)

    def training_step(self, batch, batch_idx):
        tokens, lengths, y = batch
        real = self.padding_mask(batch)[..., None]
        return nn.functional.cross_entropy((self.model(tokens) * real).sum(1) / lengths[:, None], y)


def padded_batch(padding):
    x = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([1, 2, 5, 3])
    x[torch.arange(5) >= lengths[:, None]] = padding
    return x, lengths, torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize("trained", [False, True], ids=["measured", "trained"])
def test_padding_counts_nowhere_where_the_module_says_what_is_padding(trained):
    def values(padding):
        monitor = Activations(every_n_steps=1, places=get_args(Place), statistics=get_args(Statistic))
        module, batch = Padded(), padded_batch(padding)
        if trained:
            fit(module, [monitor], steps=1, loader=DataLoader([batch], batch_size=None))
            return monitor.recorded
        return monitor.measure(module, batch)

    assert values(0.0) == values(50.0)
    module, batch = Padded(), padded_batch(50.0)
    real = module.model[:3](batch[0])[module.padding_mask(batch)]  # (11, 8)
    layer = "layer02_model_2"
    measured = values(50.0)
    first = {tag: value[0][1] if trained else value for tag, value in measured.items()}
    assert first[f"activation_mean/{layer}"] == pytest.approx(real.mean().item())
    assert first[f"activation_std/{layer}"] == pytest.approx(real.std(correction=0).item(), rel=1e-5)
    saturated = ((real < 0.05) | (real > 0.95)).float().mean().item()
    assert first[f"saturated_fraction/{layer}"] == pytest.approx(saturated)
    median = real.flatten().quantile(0.5).item()
    assert first[f"activation_p50/{layer}"] == pytest.approx(median)
