import numpy as np
import pytest
import torch
from torch import nn

from normexp.monitors import Representation
from normexp.monitors.representation import geometry


def test_geometry_matches_loops_and_a_singular_value_decomposition():
    features = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))  # 2 replicas
    values = geometry(features)
    for i, x in enumerate(features.double().numpy()):
        pairs = [(a, b) for j, a in enumerate(x) for k, b in enumerate(x) if j != k]
        cosines = [a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in pairs]
        share = np.linalg.svd(x)[1]
        share = share / share.sum()
        rank = np.exp(-(share * np.log(share)).sum())
        gap = np.linalg.norm(x @ x.T / np.square(np.linalg.norm(x)) - np.eye(6) / 6)
        assert values["q_value"][i].item() == pytest.approx(np.square(x).mean(), rel=1e-5)
        assert values["c_value"][i].item() == pytest.approx(np.mean(cosines), rel=1e-4)
        assert values["abs_cosine"][i].item() == pytest.approx(np.mean(np.abs(cosines)), rel=1e-5)
        assert values["effective_rank"][i].item() == pytest.approx(rank, rel=1e-4)
        assert values["orthogonality_gap"][i].item() == pytest.approx(gap, rel=1e-5)


def test_a_collapsed_representation_in_single_precision_still_has_rank_one():
    generator = torch.Generator().manual_seed(0)
    features = torch.ones(200, 300) + 1e-6 * torch.randn(200, 300, generator=generator)
    assert geometry(features)["effective_rank"].item() == pytest.approx(1, abs=0.01)


def test_features_that_are_not_finite_have_no_rank():
    assert geometry(torch.full((3, 4), float("inf")))["effective_rank"].isnan()


class OfTokens(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.stream, self.act = nn.Linear(6, 16), nn.Identity(), nn.Tanh()

    def sites(self):
        return [("layer00", "residual", self.stream), ("layer01", "activation", self.act)]

    def forward(self, x):
        return self.act(self.stream(self.embed(x))).mean(1)


def test_the_monitor_compares_tokens_of_activations_and_of_the_stream():
    net, generator = OfTokens(), torch.Generator().manual_seed(1)
    x = torch.randn(5, 7, 6, generator=generator)
    batch = x, torch.randint(16, (5,), generator=generator)
    found = Representation(every_n_steps=1).measure(net, batch)
    stream = net.embed(x).detach()
    for prefix, layer, vectors in (("residual_", "layer00", stream), ("", "layer01", stream.tanh())):
        for name, value in geometry(vectors.flatten(0, 1)).items():
            assert found.pop(f"{prefix}{name}/{layer}") == pytest.approx(value.item(), rel=1e-4), name
    variance = stream.double().var(correction=0).item()
    assert found == pytest.approx({"residual_variance/layer00": variance})
    few = [Representation(every_n_steps=1, max_vectors=3).measure(net, batch) for _ in range(2)]
    assert few[0] == few[1]
    assert 1 < few[0]["effective_rank/layer01"] <= 3
