"""Measures of transformers, each against loops, closed forms or a changed network."""

import itertools
import math

import numpy as np
import pytest
import torch
from small_module import fit
from torch import nn
from torch.nn import functional as F

from normexp.config.run_spec import specs
from normexp.monitors import Gradients, Stream
from normexp.monitors.gradients import angle
from normexp.monitors.representation import attention_numbers, outliers
from normexp.training.build import build

SMALL = [
    "data.context_length=8",
    "model.width=8",
    "model.heads=2",
    "model.depth=2",
    "trainer=cpu",
    "batch_size=4",
]


def gpt(*overrides):
    torch.manual_seed(0)
    parts = build(specs(["model=gpt", "data=python_docs", *SMALL, *overrides])[0])
    for p in parts.module.parameters():
        nn.init.normal_(p, std=0.5)
    return parts


EARLIER, EVERY = torch.ones(5, 5, dtype=torch.bool).tril(), torch.ones(5, 5, dtype=torch.bool)
BUT_FIRST = EVERY.index_fill(1, torch.tensor(0), False)
MASKS = {  # what a query sees, by (query, key), and how it is said
    "causal": (EARLIER, {"is_causal": True}),
    "causal by truth": (EARLIER, {"attn_mask": EARLIER}),
    "causal by numbers": (EARLIER, {"attn_mask": torch.zeros(5, 5).masked_fill(~EARLIER, -math.inf)}),
    "every key": (EVERY, {}),
    "every key but the first": (BUT_FIRST, {"attn_mask": BUT_FIRST}),
}


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("scale", [None, 0.7])
@pytest.mark.parametrize(("mask", "shared"), [("causal", 2), *((mask, 1) for mask in MASKS)])
def test_numbers_of_attention_match_loops(mask, shared, scale, sink):
    """Heads of queries may share a key's. A sink is a first key without a value, with a query of its own."""
    q, k, v = torch.randn(3, 2, 4, 5, 4, generator=torch.Generator().manual_seed(1)).double()
    k, v = k[:, : 4 // shared], v[:, : 4 // shared]
    seen, said = MASKS[mask]
    if sink := sink and bool(seen[0, 0]):
        v[..., 0, :] = 0
    found = attention_numbers(q, k, v, scale=scale, enable_gqa=shared > 1, **said)
    entropies, firsts, sinks = [], [], []
    for n, h, t in itertools.product(range(2), range(4), range(int(sink), 5)):
        keys = [s for s in range(5) if seen[t, s]]
        scores = {s: math.exp((q[n, h, t] @ k[n, h // shared, s]).item() * (scale or 0.5)) for s in keys}
        if sink:
            sinks.append(scores[0] / sum(scores.values()))
            del scores[0]
        weights = {s: score / sum(scores.values()) for s, score in scores.items()}
        if len(weights) > 1:
            entropies.append(-sum(w * math.log(w) for w in weights.values()) / math.log(len(weights)))
            firsts.append(weights.get(int(sink), 0.0))
    means = {"attention_entropy": np.mean(entropies), "attention_on_first": np.mean(firsts)}
    means |= {"attention_on_sink": np.mean(sinks)} if sink else {}
    assert {name: value.item() for name, value in found.items()} == pytest.approx(means, rel=1e-5)


def test_outliers_are_largest_over_median():
    values = torch.tensor([[1.0, -2.0, 3.0], [4.0, -50.0, 6.0], [2.0, 2.0, 2.0]])
    assert outliers(values)["outlier_ratio"].item() == 50 / 2


@pytest.mark.parametrize("position", ["pre", "post", "sandwich", "output", "keel"])
def test_share_of_a_branch_and_loss_without_a_block_match_the_network(position):
    parts = gpt(f"model.norm_position={position}", "norm=rmsnorm")
    batch = parts.data.probe_batch(4)
    found = Stream(every_n_steps=1, batch_size=4).measure(parts.module, batch)
    model = parts.module.model.eval()
    with torch.no_grad():
        x = model.embedding(batch[0]) + model.stack.positions
        for k, block in enumerate(model.stack.blocks, 1):
            for name, part in (("attention", block.attention), ("mlp", block.mlp)):
                before, after, _ = part.placed_norms
                y = part.branch(before(x) if before else x)
                y = after(y) if after else y
                base = (4 if position == "keel" else 1) * x
                share = (y.norm(dim=-1) / base.norm(dim=-1)).mean().item()
                assert found[f"branch_share/layer0{k}_{name}"] == pytest.approx(share, rel=1e-4)
                total = (base + y).abs()
                ratio = (total.max() / total.median()).item()
                assert found[f"outlier_ratio/layer0{k}_{name}"] == pytest.approx(ratio, rel=1e-4)
                first = (total.amax(-1).argmax(-1) == 0).float().mean().item()
                assert found[f"outlier_on_first/layer0{k}_{name}"] == pytest.approx(first)
                x = part(x)
        losses = []
        for left_out in (None, 0, 1):
            x = model.embedding(batch[0]) + model.stack.positions
            for k, block in enumerate(model.stack.blocks):
                for part in (block.attention, block.mlp):
                    of_sum = part.placed_norms[2]
                    kept = (4 if position == "keel" else 1) * x
                    x = part(x) if k != left_out else of_sum(kept) if of_sum else kept
            x = x if model.stack.final_norm is None else model.stack.final_norm(x)
            losses.append(F.cross_entropy(model.output(x).flatten(0, 1), batch[1].flatten()).item())
    for k in (1, 2):
        assert found[f"left_out_loss/layer0{k}"] == pytest.approx(losses[k] - losses[0], abs=1e-4)


def test_attention_of_the_network_is_measured_by_layer_and_a_sink_is_told_apart():
    parts = gpt("model.attention_sink=true", "norm=rmsnorm")
    for block in parts.module.model.stack.blocks:
        nn.init.constant_(block.attention.branch.sink, 50.0)  # takes all weight
    found = Stream(every_n_steps=1, batch_size=4).measure(parts.module, parts.data.probe_batch(4))
    shares = [found[f"attention_on_sink/layer0{k}_attention"] for k in (1, 2)]
    assert shares == pytest.approx([1, 1], abs=1e-3)
    plain = gpt("norm=rmsnorm")
    found = Stream(every_n_steps=1, batch_size=4).measure(plain.module, plain.data.probe_batch(4))
    assert not any(tag.startswith("attention_on_sink") for tag in found)
    assert {f"attention_entropy/layer0{k}_attention" for k in (1, 2)} <= found.keys()


def test_network_without_a_stream_shows_the_outliers_of_the_inputs_of_norms():
    parts = build(specs(["model=mlp", "data=digits", "model.width=8", "model.depth=2", "trainer=cpu"])[0])
    found = Stream(every_n_steps=1, batch_size=4).measure(parts.module, parts.data)
    assert {tag.split("/")[0] for tag in found} == {"outlier_ratio"}


def test_angles_are_exact_from_a_turn_to_the_smallest():
    a = torch.tensor([3.0, 0.0])
    for radians in (math.pi, math.pi / 2, 0.1, 1e-6, 0.0):
        b = torch.tensor([math.cos(radians), math.sin(radians)])
        assert angle(a, b).item() == pytest.approx(radians, rel=1e-5, abs=1e-12)


def test_angle_and_relative_gradient_of_a_step_match_the_weights():
    parts = gpt("norm=rmsnorm", "optimizer=sgd", "optimizer.momentum=0.0")
    monitor = Gradients(every_n_steps=1, angles=True)
    layer = parts.module.model.stack.blocks[0].attention.branch.qkv
    before = torch.cat([p.detach().flatten().clone() for p in layer.parameters()])
    fit(parts.module, [monitor], steps=1, datamodule=parts.data)
    after = torch.cat([p.detach().flatten() for p in layer.parameters()])
    turned = F.cosine_similarity(before.double(), after.double(), dim=0).clamp(-1, 1).acos().item()
    recorded = {tag: dict(series)[0] for tag, series in monitor.recorded.items() if 0 in dict(series)}
    assert recorded["update_angle/layer01_attention"] == pytest.approx(turned, rel=0.02, abs=1e-6)
    ratio = (after - before).norm().item() / before.norm().item()
    assert recorded["update_ratio/layer01_attention"] == pytest.approx(ratio, rel=1e-3)
    ratio = recorded["gradient_norm/layer01_attention"] / before.norm().item()
    assert recorded["gradient_weight_ratio/layer01_attention"] == pytest.approx(ratio, rel=1e-4)
