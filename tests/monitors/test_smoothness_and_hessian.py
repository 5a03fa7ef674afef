import pytest
import torch
from small_module import Small, batches
from torch import nn

from normexp.monitors import HessianTopEigenvalue, Smoothness
from normexp.monitors.loss_landscape import hessian_product, lanczos


def quadratic(eigenvalues):
    """A loss 1/2 w'Aw with the given spectrum, in float64, and its parameter."""
    n = len(eigenvalues)
    generator = torch.Generator().manual_seed(0)
    basis, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64, generator=generator))
    A = basis @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ basis.T
    w = nn.Parameter(torch.arange(1, n + 1, dtype=torch.float64))
    return A, w, lambda: w @ A @ w / 2


def test_smoothness_of_a_network_matches_copies_moved_by_hand():
    module, batch = Small(dropout=0), batches(1).dataset.tensors
    values = Smoothness(every_n_steps=1, step_sizes=[0.2, 0.5]).measure(module, batch)
    module.loss(batch).backward()
    g = [p.grad.clone() for p in module.parameters()]
    losses, distances, betas = [], [], []
    for size in (0.2, 0.5):
        moved = Small(dropout=0)
        moved.load_state_dict(module.state_dict())
        with torch.no_grad():
            for p, direction in zip(moved.parameters(), g, strict=True):
                p -= size * direction
        loss = moved.loss(batch)
        loss.backward()
        losses.append(loss.item())
        difference = [p.grad - old for p, old in zip(moved.parameters(), g, strict=True)]
        distances.append(sum(d.square().sum() for d in difference).sqrt().item())
        betas.append(distances[-1] / (size * sum(d.square().sum() for d in g).sqrt().item()))
    expected = {
        "landscape_loss_min": min(losses), "landscape_loss_max": max(losses),
        "gradient_predictiveness_min": min(distances), "gradient_predictiveness_max": max(distances),
        "effective_beta": max(betas),
    }  # fmt: skip
    assert values == pytest.approx({f"{name}/network": x for name, x in expected.items()}, rel=1e-4)


@pytest.mark.parametrize("iterations", [6, 50])
def test_lanczos_finds_both_ends_of_a_spectrum(iterations):
    A, w, loss = quadratic([9.0, 4.0, 1.0, 0.5, 0.0, -3.0])
    product = hessian_product(loss(), [w])
    v = torch.randn(6, dtype=torch.float64)
    assert torch.allclose(product(v), A @ v)
    found = lanczos(product, torch.ones(6, dtype=torch.float64), iterations)
    assert found[-1].item() == pytest.approx(9)
    assert found[0].item() == pytest.approx(-3)


def test_every_eigenvalue_of_a_wide_spectrum_is_found_in_single_precision():
    """Vectors that are made orthogonal once leave errors of 2e-4."""
    spectrum = [(k / 19) ** 8 for k in range(20)]
    A, *_ = quadratic(spectrum)
    found = lanczos(lambda v: A.float() @ v, torch.ones(20), 20)
    assert found.tolist() == pytest.approx(spectrum, abs=1e-6)


def test_eigenvalues_of_a_network_are_those_of_its_whole_hessian():
    module = Small(dropout=0).double()
    x, y = batches(2).dataset.tensors
    values = HessianTopEigenvalue(every_n_steps=1, iterations=60).measure(module, (x, y))
    names = [name for name, _ in module.model.named_parameters()]
    shapes = [p.shape for p in module.model.parameters()]

    def loss(flat):
        pieces = torch.split(flat, [shape.numel() for shape in shapes])
        weights = {n: piece.view(s) for n, piece, s in zip(names, pieces, shapes, strict=True)}
        logits = torch.func.functional_call(module.model, weights, (x.double(),))
        return nn.functional.cross_entropy(logits, y)

    start = torch.cat([p.detach().flatten() for p in module.model.parameters()])
    spectrum = torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss, start))
    assert values["hessian_top_eigenvalue/network"] == pytest.approx(spectrum[-1].item(), rel=1e-6)
    assert values["hessian_lowest_eigenvalue/network"] == pytest.approx(spectrum[0].item(), rel=1e-3)


def test_a_network_that_diverged_has_no_eigenvalue():
    module = Small(dropout=0)
    module.model[0].weight.data.fill_(float("nan"))
    values = HessianTopEigenvalue(every_n_steps=1).measure(module, batches(1).dataset.tensors)
    assert values["hessian_top_eigenvalue/network"] != values["hessian_top_eigenvalue/network"]
