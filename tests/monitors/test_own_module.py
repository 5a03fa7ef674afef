"""The three lines of README.md and docs/monitors.md, on a module that knows nothing of this project."""

from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from small_module import Small, batches, fit
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from normexp import monitors
from normexp.monitors import CovariateShift

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
    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        pass


@pytest.mark.filterwarnings("ignore:.*shuffling enabled")
@pytest.mark.parametrize("several", [False, True])
def test_the_held_out_batch_is_the_first_validation_batch_and_costs_no_random_number(several):
    training, validation = batches(4), DataLoader(batches(2, seed=5).dataset, 16, shuffle=True)
    validation = [validation, batches(2)] if several else validation
    watched, plain = Validated(), Validated()
    monitor = CovariateShift(every_n_steps=1)
    lines = fit(watched, [monitor], steps=4, loader=training, validation=validation)
    fit(plain, [], steps=4, loader=training, validation=validation)
    assert watched.losses == plain.losses
    values = {value for (_, tag), value in lines.values.items() if tag.startswith("input_mean/layer00")}
    assert len(values) == 1  # it never changes
    others = next(iter(batches(2)))[0].mean().item()  # of training, and of the last loader
    assert values.pop() != pytest.approx(others, rel=1e-3)


def test_layer_that_gets_no_sample_is_measured_where_it_gets_some():
    class Experts(nn.Module):
        """Sends nothing to an expert at its first call, and never anything to the other."""

        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(
                nn.Sequential(nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 6)) for _ in range(2)
            )

        def forward(self, x):
            used, unused = self.experts
            return used(x[:0]).sum() + used(x) + F.relu(x[:0]).sum() + unused(x[:0]).sum()

    places = ("norm_input", "norm_output", "preactivation", "activation")
    monitor, x = monitors.Activations(every_n_steps=1, places=places, statistics=("mean",)), torch.randn(4, 6)
    found = monitor.measure(Experts(), x, loss=lambda y, _: y.square().mean())
    assert found["norm_input_mean/layer00_model_experts_0_0"] == pytest.approx(float(x.mean()))
    assert not any("experts_1" in tag for tag in found)
