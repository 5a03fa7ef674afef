import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from scipy.stats import wasserstein_distance
from small_module import Small, batches, fit
from torch import nn

from normexp.monitors import CovariateShift, CovariateShiftProxies
from normexp.monitors.covariate_shift import Distribution, drift


def gaussian(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_drift_matches_scipy_and_a_loop():
    before, now = gaussian(50, 3), 2 * gaussian(50, 3, seed=1) + 1
    values = drift(Distribution.of(now, 50), Distribution.of(before, 50))
    std = [before[:, c].std(correction=0).item() for c in range(3)]
    distances = [wasserstein_distance(before[:, c].numpy(), now[:, c].numpy()) for c in range(3)]
    assert values["wasserstein_drift"].item() == pytest.approx(
        np.mean(distances) / np.sqrt(np.mean(np.square(std)))
    )
    means = [(now[:, c].mean() - before[:, c].mean()).item() for c in range(3)]
    assert values["mean_drift"].item() == pytest.approx(np.linalg.norm(means) / np.linalg.norm(std))
    stds = [(now[:, c].std(correction=0) - before[:, c].std(correction=0)).item() for c in range(3)]
    assert values["std_drift"].item() == pytest.approx(np.linalg.norm(stds) / np.linalg.norm(std))


def test_a_constant_channel_divides_nothing_by_zero():
    rows = gaussian(100, 2) * torch.tensor([1.0, 0.0], dtype=torch.float64)
    values = drift(Distribution.of(rows + 1, 50), Distribution.of(rows, 50))
    assert all(value.isfinite() for value in values.values())


def test_drift_is_from_the_previous_and_from_the_first_measurement():
    module, monitor = Small(), CovariateShift(every_n_steps=1)
    x, y = batches(4).dataset.tensors
    assert not [tag for tag in monitor.measure(module, (x, y)) if "drift" in tag]
    first = module.model[0].bias.data.clone()
    for shift in (1.0, 3.0):
        module.model[0].bias.data = first + shift  # of the input of nothing but what follows BatchNorm
        module.model[1].bias.data = torch.full((8,), shift)
        module.model[1].weight.data = torch.arange(8.0)
        values = monitor.measure(module, (x, y))
    layers = sorted(tag.split("/")[1] for tag in values if tag.startswith("input_mean/"))
    assert values[f"mean_drift/{layers[0]}"] == values[f"mean_drift_from_start/{layers[0]}"] == 0  # the data
    assert 0 < values[f"mean_drift/{layers[1]}"] < values[f"mean_drift_from_start/{layers[1]}"]
    z = module.model[:3](x).detach().double().numpy()
    assert values[f"input_mean/{layers[1]}"] == pytest.approx(z.mean(), rel=1e-4)
    assert values[f"input_std/{layers[1]}"] == pytest.approx(np.sqrt(z.var(0).mean()), rel=1e-4)
    affine = {tag.split("/")[0]: value for tag, value in values.items() if tag[:4] in ("beta", "gamm")}
    gain = np.arange(8)
    expected = {"gamma_mean": gain.mean(), "gamma_std": gain.std(), "beta_mean": 3, "beta_std": 0}
    assert affine == pytest.approx(expected)


def test_a_layer_that_runs_twice_is_measured_at_its_first_run():
    linear, x = nn.Linear(6, 6), torch.randn(9, 6)
    found = CovariateShift(every_n_steps=1).measure(nn.Sequential(linear, nn.Tanh(), linear), (x, x))
    assert found["input_mean/layer00_model_0"] == pytest.approx(x.mean().item(), rel=1e-4)


def test_an_input_that_was_constant_has_no_drift():
    module, monitor = Small(), CovariateShift(every_n_steps=1)
    x, y = batches(1).dataset.tensors
    monitor.measure(module, (torch.zeros_like(x), y))
    found = monitor.measure(module, (x, y))
    assert not [tag for tag in found if "drift" in tag and "/layer00" in tag]
    assert found["input_std/layer00_model_0"] > 0
    moved = monitor.measure(module, (2 * x, y))
    assert moved["std_drift/layer00_model_0"] == pytest.approx(1)
    assert "std_drift_from_start/layer00_model_0" not in moved


class SaveAtStepFour(pl.Callback):
    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 4:
            trainer.save_checkpoint(self.path)


@pytest.mark.parametrize(("kind", "pace", "since"), [(CovariateShift, 2, 4), (CovariateShiftProxies, 3, 3)])
def test_a_resumed_run_goes_on_with_its_references(kind, pace, since, tmp_path):
    """The proxies of step 3 have their second step, 4, behind the checkpoint."""
    path, loader = tmp_path / "last.ckpt", batches(4)
    one, other = kind(every_n_steps=pace), kind(every_n_steps=pace)
    whole = fit(Small(dropout=0), [one, SaveAtStepFour(path)], steps=8, loader=loader)
    resumed = fit(Small(dropout=0), [other], steps=8, loader=loader, resume=path)
    assert resumed.values == {
        (step, tag): value for (step, tag), value in whole.values.items() if step >= since
    }
    assert one.recorded == other.recorded
