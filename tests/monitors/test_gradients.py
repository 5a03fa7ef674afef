import pytest
import torch
from pytorch_lightning.plugins.precision import MixedPrecision
from small_module import Small, batches, fit
from torch import nn

from normexp.monitors import GradientNoiseScale, Gradients
from normexp.monitors.gradients import growth_rate, norms_of


def test_growth_rate_of_a_geometric_series_is_its_factor():
    # The first layer has the largest gradient.
    squared = 1.467 ** torch.arange(20.0, dtype=torch.float64).flip(0)
    replicas = torch.stack([squared.sqrt(), 7 * squared.sqrt(), squared.flip(0).sqrt()])
    assert growth_rate(replicas).tolist() == pytest.approx([1.467, 1.467, 1 / 1.467])


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
def test_the_squares_of_half_precision_add_up_in_single(kind):
    found = norms_of([torch.full((1000,), 300.0, dtype=kind), torch.ones(3)])  # 9e7 is beyond float16
    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx([300 * 1000**0.5, 3**0.5], rel=1e-6)


def test_norms_are_those_of_a_deep_linear_network_in_closed_form():
    """Loss w_3 w_2 w_1 x, summed over samples: the gradient by a layer's output is the product of what comes after."""
    torch.manual_seed(0)
    layers = [nn.Linear(4, 4, bias=False), nn.Identity(), nn.Linear(4, 4, bias=False), nn.Identity()]
    module = Small().double()
    module.model = nn.Sequential(*layers, nn.Linear(4, 1, bias=False)).double()
    module.sites = lambda: [
        ("layer00", "linear", module.model[0]), ("layer00", "activation", module.model[1]),
        ("layer01", "linear", module.model[2]), ("layer01", "activation", module.model[3]),
        ("layer02", "linear", module.model[4]),
    ]  # fmt: skip
    module.training_step = lambda batch, index: module.model(batch).sum()
    x = torch.randn(5, 4, dtype=torch.float64)
    values = Gradients(every_n_steps=1).measure(module, x)
    w1, w2, w3 = (module.model[i].weight.detach() for i in (0, 2, 4))
    by_output = {"layer00": (w3 @ w2).expand(5, 4), "layer01": w3.expand(5, 4)}
    by_weight = {"layer00": (w3 @ w2).T @ x.sum(0)[None], "layer01": w3.T @ (w1 @ x.sum(0))[None]}
    by_weight["layer02"] = (w2 @ w1 @ x.sum(0))[None]
    for layer, expected in by_output.items():
        assert values[f"activation_gradient_norm/{layer}"] == pytest.approx(expected.norm().item())
    for layer, expected in by_weight.items():
        assert values[f"gradient_norm/{layer}"] == pytest.approx(expected.norm().item())
    total = sum(expected.norm() ** 2 for expected in by_weight.values()).sqrt()
    assert values["gradient_norm/network"] == pytest.approx(total.item())
    ratio = by_output["layer00"].norm() / by_output["layer01"].norm()
    assert values["gradient_first_last_ratio/activation"] == pytest.approx(ratio.item())
    assert values["gradient_growth_rate/activation"] == pytest.approx(ratio.item() ** 2)


def test_a_layer_that_no_pass_reaches_is_left_out_at_the_end_as_in_training():
    module = Small()
    module.unused = nn.Linear(6, 6)
    module.model[:3].requires_grad_(False)  # an activation among them
    lines = fit(module, [Gradients(every_n_steps=1)], steps=2, loader=batches(2))
    tags = [{tag for step, tag in lines.values if step == at and "update" not in tag} for at in (1, 2)]
    assert tags[0] == tags[1]
    assert not any("unused" in tag for tag in tags[1])
    assert lines.values[2, "gradient_first_last_ratio/weight"] > 0


def first(loader, count=1):
    x, y = loader.dataset.tensors
    return x[: 16 * count], y[: 16 * count]


@pytest.mark.parametrize(
    "options", [{}, {"gradient_clip_val": 1e-3}, {"accumulate_grad_batches": 2}], ids=str
)
def test_gradients_in_training_are_those_of_the_joined_batch_before_clipping(options):
    loader, twin, module = batches(2), Small(dropout=0), Small(dropout=0)
    del twin.model[1], module.model[1]  # a BatchNorm would see other batches
    module.load_state_dict(twin.state_dict())
    lines = fit(module, [Gradients(every_n_steps=1, per_parameter=True)], steps=1, loader=loader, **options)
    assert {step for step, _ in lines.values} == {0, 1}
    twin.loss(first(loader, options.get("accumulate_grad_batches", 1))).backward()
    for name, p in twin.named_parameters():
        assert lines.values[0, f"parameter_gradient_norm/{name}"] == pytest.approx(
            p.grad.norm().item(), rel=1e-5
        )
    # The gradient by an activation is that of its own micro-batch, as if it were alone.
    alone = Gradients(every_n_steps=1).measure(twin, first(loader))
    for tag in (tag for tag in alone if tag.startswith("activation_gradient_norm")):
        assert lines.values[0, tag] == pytest.approx(alone[tag], rel=1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_gradients_under_a_loss_scaler_are_unscaled(fused):
    """A fused optimizer unscales in its own step: without care its gradients read 1024 times too large here."""
    loader, twin, module = batches(2), Small(dropout=0), Small(dropout=0)
    module.load_state_dict(twin.state_dict())
    module.configure_optimizers = lambda: torch.optim.SGD(module.parameters(), 0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    plugin = MixedPrecision("16-mixed", device="cpu", scaler=scaler)
    plugin.autocast_context_manager = lambda: torch.autocast("cpu", dtype=torch.bfloat16)
    lines = fit(module, [Gradients(every_n_steps=1)], steps=1, loader=loader, plugins=plugin)
    expected = Gradients(every_n_steps=1).measure(twin, first(loader))
    for tag, value in expected.items():
        assert lines.values[0, tag] == pytest.approx(value, rel=0.05), tag


@pytest.mark.parametrize(("samples", "asked", "chunks"), [(10, 4, 4), (9, 8, 4), (4, 8, 2), (12, 3, 3)])
def test_the_noise_of_a_batch_is_that_of_its_chunks_by_hand(samples, asked, chunks):
    """Each chunk has two samples or more; what is left over is left out."""
    module, twin, (x, y) = Small(dropout=0), Small(dropout=0), batches(1).dataset.tensors
    monitor, size = GradientNoiseScale(every_n_steps=1, chunks=asked), samples // chunks
    found = monitor.measure(module, (x[:samples], y[:samples]))
    gradients = []
    for start in range(0, chunks * size, size):
        twin.zero_grad()
        twin.loss((x[start : start + size], y[start : start + size])).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in twin.parameters()]).double())
    small = sum(g.square().sum() for g in gradients) / chunks
    big = (sum(gradients) / chunks).square().sum()
    noise = ((small - big) / (1 / size - 1 / (chunks * size))).item()
    signal = ((chunks * size * big - size * small) / (chunks * size - size)).item()
    expected = {"gradient_noise": noise, "gradient_signal": signal, "gradient_noise_scale": noise / signal}
    assert found == pytest.approx({f"{name}/network": value for name, value in expected.items()}, rel=1e-3)
