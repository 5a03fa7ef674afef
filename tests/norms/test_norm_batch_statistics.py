"""Which samples a batch norm uses, what it remembers of them, and when."""

import copy

import pytest
import torch
from norms.layers import CASES, build, norm_factory, sample, values
from refusals import refused
from torch import nn
from torchvision.ops import FrozenBatchNorm2d

from normexp.norms import BatchNorm, followers, recompute_population_statistics


@pytest.mark.parametrize(
    "name", ["batchnorm", "batchnorm_eps_outside", "batchrenorm", "switchablenorm_layer_batch"]
)
def test_training_on_one_value_per_channel_is_refused_in_one_line(name):
    layer = norm_factory(name)(8)
    with refused("one value per channel; use a larger batch_size"):
        layer(torch.ones(1, 8))
    layer.eval()(torch.ones(1, 8))


@pytest.mark.parametrize("name", ["batchnorm", "batchnorm_eps_outside", "batchnorm_cumulative"])
def test_running_correction_stores_the_variance_it_names(name):
    keep = [] if name == "batchnorm_cumulative" else ["ema_keep=0.0"]
    x = sample("image")
    for correction in (0, 1):
        layer = norm_factory(name, *keep, f"running_correction={correction}")(8).double()
        layer(x)
        torch.testing.assert_close(layer.running_var, x.var((0, 2, 3), correction=correction))


def test_backward_works_after_the_next_forward():
    """Gradient accumulation by summed losses: buffers change between a forward pass and its backward pass."""
    for options in (["running_correction=0"], ["correction=1"], ["eps_position=outside"]):
        first, second = (sample("dense", seed=seed) for seed in (0, 1))
        together, one_by_one = (norm_factory("batchnorm", *options)(8).double() for _ in range(2))
        (together(first).square().sum() + together(second).square().sum()).backward()
        for x in (first, second):
            one_by_one(x).square().sum().backward()
        torch.testing.assert_close(together.weight.grad, one_by_one.weight.grad)


def test_frozen_batch_norm_stops_learning_from_the_batch():
    layer = build("batchnorm_frozen")  # built with freeze_after=2
    for seed in range(2):
        layer(sample("dense", seed))
    frozen = copy.deepcopy(layer.state_dict())
    x = sample("dense", seed=5)
    torch.testing.assert_close(layer(x), copy.deepcopy(layer).eval()(x))
    assert all(torch.equal(frozen[key], value) for key, value in layer.state_dict().items())


def test_noise_changes_every_step_depends_on_seed_and_layer_and_is_off_in_eval():
    x = sample("dense")

    def noisy(*overrides, layer=1, steps=1):
        norm = norm_factory("batchnorm_noisy", *overrides)(8, layer=layer).double()
        return [norm(x) for _ in range(steps)][-1]

    assert torch.equal(noisy(), noisy())
    for other in (noisy("seed=1"), noisy(layer=2), noisy(steps=2)):
        assert not torch.allclose(noisy(), other)
    later = norm_factory("batchnorm_noisy")(8, layer=1).double()
    later.next_noise()
    assert torch.equal(later(x), noisy(steps=2))
    layer = norm_factory("batchnorm_noisy")(8).eval()
    assert torch.equal(layer(x.float()), norm_factory("batchnorm")(8).eval()(x.float()))


def test_noise_has_the_distribution_that_the_paper_gives():
    """Of a normalized input: step means within 0.5, step scales within 1 to 1.25, both about their middle."""
    layer, x = norm_factory("batchnorm_noisy", "affine=none")(64), values((4096, 64), dtype=torch.float32)
    outputs = torch.stack([layer(x) for _ in range(30)])
    means, stds = outputs.mean(1), outputs.std(1)
    assert means.abs().max() < 0.53
    assert means.mean().abs() < 0.03
    assert stds.min() > 0.97
    assert stds.max() < 1.29
    assert stds.mean().item() == pytest.approx(1.13, abs=0.02)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        first = nn.Linear(8, 6), BatchNorm(6), nn.ReLU(), nn.Dropout(0.5)
        self.layers = nn.Sequential(*first, nn.Linear(6, 5), BatchNorm(5, running_correction=0))

    def forward(self, x):
        return self.layers(x)


class TestPopulationStatistics:
    def test_first_norm_gets_the_moments_of_all_samples_however_they_are_batched(self):
        x, model = values((30, 8)), Network().double()
        z = model.layers[0](x)
        for sizes in ([10, 10, 10], [2, 25, 3], [30]):
            recompute_population_statistics(model, x.split(sizes))
            torch.testing.assert_close(model.layers[1].running_mean, z.mean(0))
            torch.testing.assert_close(model.layers[1].running_var, z.var(0))

    def test_later_norms_see_earlier_ones_normalize_with_the_batch(self):
        x, model = values((30, 8)), Network().double()
        recompute_population_statistics(model, [(x[:15], "target"), (x[15:], "target")])
        inner = [nn.functional.relu(model.layers[1].train()(model.layers[0](part))) for part in x.split(15)]
        z = model.layers[4](torch.cat(inner))
        torch.testing.assert_close(model.layers[5].running_mean, z.mean(0))
        torch.testing.assert_close(model.layers[5].running_var, z.var(0, correction=0))

    def test_torch_layers_are_norms_too(self):
        x = values((30, 8))
        model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), BatchNorm(6)).double()
        recompute_population_statistics(model, x.split([10, 20]))
        z = model[0](x)
        torch.testing.assert_close(model[1].running_mean, z.mean(0))
        torch.testing.assert_close(model[1].running_var, z.var(0))
        assert model[1].num_batches_tracked == 0
        within = torch.cat([nn.BatchNorm1d(6).double()(part) for part in z.split([10, 20])])
        torch.testing.assert_close(model[2].running_var, within.var(0))

    @pytest.mark.parametrize("fails", [False, True])
    def test_everything_else_is_left_as_it_was(self, fails):
        x, model = values((30, 8)), Network().double()
        model(x)
        model.layers[3].eval()
        modes, rng = [m.training for m in model.modules()], torch.get_rng_state()
        before = copy.deepcopy(model.state_dict())
        if fails:
            with refused("one value per channel"):
                recompute_population_statistics(model, [x[:10], x[:1]])
        else:
            recompute_population_statistics(model, x.split(10))
        assert [m.training for m in model.modules()] == modes
        assert torch.equal(torch.get_rng_state(), rng)
        assert not any(m._forward_pre_hooks for m in model.modules())
        moved = {key for key, value in model.state_dict().items() if not torch.equal(before[key], value)}
        running = {f"layers.{k}.running_{statistic}" for k in (1, 5) for statistic in ("mean", "var")}
        assert moved == (set() if fails else running)


class TestInEvalMode:
    """`training=False`: norms run as in eval mode, with the batch's moments in place of the running ones."""

    def test_each_norm_sees_the_earlier_ones_as_eval_mode_has_them(self):
        """With all samples in one batch, what the earlier norms made of it is what they make of it afterwards."""
        x, model = values((30, 8)), Network().double()
        recompute_population_statistics(model, [x], training=False)
        model.eval()
        z = model.layers[:4](x)
        torch.testing.assert_close(model.layers[5].running_mean, model.layers[4](z).mean(0))
        torch.testing.assert_close(model.layers[5].running_var, model.layers[4](z).var(0, correction=0))

    @pytest.mark.parametrize("norm", [name for name, layout in CASES if layout == "image"])
    def test_of_every_norm_only_running_statistics_move(self, norm):
        """And neither its noise, nor its virtual batches, nor the statistics from which it starts count."""
        x = values((4, 8, 3, 5))
        layer = norm_factory(norm)(8).double()
        layer(x)
        before = copy.deepcopy(layer.state_dict())
        followed = followers(layer)
        recompute_population_statistics(layer, [x], training=False)
        after = layer.state_dict()
        moved = {key for key in before if not torch.equal(before[key], after[key])}
        assert moved == ({"running_mean", "running_var"} if followed else set())
        if followed and getattr(layer, "deviation", "l2") == "l2":
            torch.testing.assert_close(layer.running_mean, x.mean((0, 2, 3)))
            wanted = x.var((0, 2, 3), correction=layer.running_correction)
            torch.testing.assert_close(layer.running_var, wanted)

    def test_torchs_layers_count_too_but_none_that_training_does_not_move(self):
        x = values((6, 4, 3, 3)).float()
        unmoved = nn.BatchNorm2d(4).eval(), nn.BatchNorm2d(4, track_running_stats=False), FrozenBatchNorm2d(4)
        unmoved += nn.InstanceNorm2d(4, track_running_stats=True), BatchNorm(4, freeze_after=0)
        model = nn.Sequential(nn.BatchNorm2d(4), *unmoved, nn.SyncBatchNorm(4))
        assert followers(model) == [model[0], model[6]]
        assert len(followers(model.eval())) == 4  # a model in eval mode does not tell
        model[0].train()
        recompute_population_statistics(model, [x[:2], x[2:]], training=False)
        torch.testing.assert_close(model[0].running_mean, x.mean((0, 2, 3)))
        torch.testing.assert_close(model[0].running_var, x.var((0, 2, 3)))

    def test_a_single_sample_gives_numbers(self):
        model = Network()
        recompute_population_statistics(model, [values((1, 8)).float()], training=False)
        assert all(bool(value.isfinite().all()) for value in model.state_dict().values())
