"""When monitors measure, and that a measurement leaves no trace in the module."""

import random
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from hydra.utils import get_class
from omegaconf import OmegaConf
from small_module import Small, batches, fit
from torch import nn

import normexp.monitors as monitors
from normexp.monitors.base import USUAL, a_twentieth
from normexp.monitors.guard import is_compiled, loss_of, untouched

CONFIGS = Path(__file__).parents[2] / "configs" / "monitor"
LEFT_OUT = {
    "none", "light", "full",  # name several or none
    "charts",  # draws what others measure
    "adaptation", "adversarial_noise",  # need images
    "stream",  # needs a transformer
}  # fmt: skip
OPTIONS = {
    "gradients": {"per_parameter": True},
    "hessian": {"iterations": 3},
    "batch_statistics": {"batch_size": 16},
}


def maker(name):
    kind = get_class(OmegaConf.load(CONFIGS / f"{name}.yaml")[name]["_target_"])
    return lambda n: kind(every_n_steps=n, **OPTIONS.get(name, {}))


EVERY = {name: maker(name) for name in sorted({path.stem for path in CONFIGS.glob("*.yaml")} - LEFT_OUT)}


def hooks(module):
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(child, kind)) for child in module.modules() for kind in kinds)


def state(module):
    """Everything that a monitor could change."""
    generators = [torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()]
    gradients = {name: p.grad for name, p in module.named_parameters()}
    modes = {name: child.training for name, child in module.named_modules()}
    weights = {name: value.clone() for name, value in module.state_dict().items()}
    return [weights, generators, gradients, modes, list(module.losses)]


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b


@pytest.mark.parametrize("name", EVERY)
def test_measuring_leaves_no_trace(name):
    module, batch = Small(), batches(1).dataset.tensors
    module.model[1].eval()  # a submodule's own mode stays too
    before = state(module)
    assert EVERY[name](2).measure(module, batch)
    assert_same(state(module), before)
    assert hooks(module) == 0


class Clean(pl.Callback):
    """Hooks after each step that is over."""

    def __init__(self):
        self.counts = []

    def on_train_batch_end(self, trainer, module, *_):
        self.counts.append(hooks(module))


AUTOCAST = []  # of every pass; a list of the module's own would be put back


class Noting(Small):
    def __init__(self):
        super().__init__()
        self.unused = nn.Tanh()  # which no pass reaches

    def training_step(self, batch, batch_idx):
        AUTOCAST.append(torch.is_autocast_enabled("cpu"))
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("name", EVERY)
def test_a_training_keeps_its_bits_precision_and_hooks_and_gives_what_is_documented(name, precision):
    plain, watched, monitor, clean = Noting(), Noting(), EVERY[name](2), Clean()
    fit(plain, [], steps=5, precision=precision)
    AUTOCAST.clear()
    lines = fit(watched, [monitor, clean], steps=5, precision=precision)
    assert_same([watched.losses, watched.state_dict()], [plain.losses, plain.state_dict()])
    assert len(AUTOCAST) >= 5
    assert set(AUTOCAST) == {precision == "bf16-mixed"}
    assert [*clean.counts[-2:], hooks(watched)] == [0, 0, 0]
    emitted = {tag.split("/")[0] for _, tag in lines.values}
    assert emitted
    assert emitted <= monitor.keys()
    assert all(key.startswith(("residual", "accuracy")) for key in monitor.keys() - emitted)
    assert all(np.isfinite(value) for value in lines.values.values())


@pytest.mark.parametrize(("steps", "expected"), [(5, [0, 2, 4, 5]), (4, [0, 2, 4]), (1, [0, 1])])
def test_measurements_are_at_initialization_at_the_pace_and_at_the_end(steps, expected):
    for name, make in EVERY.items():
        monitor = make(2)
        fit(Small(), [monitor], steps=steps)
        last = [] if monitor.measures_after_training else [step for step in expected if step >= steps]
        if name == "covariate_shift_proxies":  # of two steps each
            last = [step for step in expected if step > steps - 2]
        assert {len(values) for values in monitor.recorded.values()} or last == expected
        seen = sorted({step for values in monitor.recorded.values() for step, _ in values})
        assert seen == [step for step in expected if step not in last], name
        assert all(len({step for step, _ in values}) == len(values) for values in monitor.recorded.values())


@pytest.mark.parametrize(
    ("total", "pace"), [(0, USUAL), (float("inf"), USUAL), (-1, USUAL), (1, 2), (39, 2), (100, 5), (1000, 50)]
)
def test_a_run_of_any_length_is_measured_about_twenty_times(total, pace):
    trainer, module = SimpleNamespace(estimated_stepping_batches=total), nn.Module()
    assert a_twentieth(trainer, module) == pace
    if total > 0:
        module.total_steps = total
        assert a_twentieth(SimpleNamespace(estimated_stepping_batches=7), module) == pace


@pytest.mark.parametrize("name", EVERY)
def test_a_second_fit_starts_anew(name):
    used, fresh = EVERY[name](2), EVERY[name](2)
    fit(Small(lr=0.5), [used], steps=3)
    used.stopped = "by the first fit"
    for monitor in (used, fresh):
        fit(Small(), [monitor], steps=3)
    assert used.recorded == fresh.recorded
    assert used.recorded
    assert not used.stopped


@pytest.mark.filterwarnings("ignore:You're resuming")
@pytest.mark.parametrize("by_checkpoint", [False, True])
@pytest.mark.parametrize("name", ["activations", "gradients", "covariate_shift"])
def test_a_finished_run_that_is_trained_on_has_each_value_once(name, by_checkpoint, tmp_path):
    monitor, module = EVERY[name](2), Small()
    fit(module, [monitor], steps=3)
    trainer = module.trainer
    if by_checkpoint:
        trainer.save_checkpoint(tmp_path / "last.ckpt")
        monitor = EVERY[name](2)
        fit(Small(), [monitor], steps=6, loader=batches(6), resume=tmp_path / "last.ckpt")
    else:
        trainer.fit_loop.epoch_loop.max_steps = 6
        trainer.fit(module, batches(6))
    steps = {tag: [step for step, _ in values] for tag, values in monitor.recorded.items()}
    assert all(sorted(set(at)) == at for at in steps.values())
    assert [0, 2, 3, 4, 6] in steps.values()


def test_the_value_of_a_step_is_that_of_the_weights_before_it():
    module, loader = Small(dropout=0), batches(3)
    direct = monitors.Smoothness(every_n_steps=1).measure(module, next(iter(loader)))
    lines = fit(module, [monitors.Smoothness(every_n_steps=1)], steps=3, loader=loader)
    assert {tag: lines.values[0, tag] for tag in direct} == direct
    last = monitors.Smoothness(every_n_steps=1).measure(module, list(loader)[-1])
    assert {tag: lines.values[3, tag] for tag in last} == last


class SkipsEverySecond(Small):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) if batch_idx % 2 == 0 else None


class OneMap(Small):
    def __init__(self):
        super().__init__()
        self.model = nn.Linear(6, 3)


NOTHING = [  # a module, a monitor that can measure nothing there, and what it asks for
    (OneMap, EVERY["activations"](2), r"no layer that it measures ran; define `sites\(\)`"),
    (SkipsEverySecond, EVERY["covariate_shift_proxies"](2), "a value takes two steps in a row"),
    (Small, monitors.Adaptation(every_n_steps=2), "return .*'batch_accuracy': ...} from training_step"),
    (Small, monitors.AdversarialNoise(every_n_steps=2), "return .*'batch_accuracy': ...} from training_step"),
]


@pytest.mark.filterwarnings("ignore:.*training_step.* returned .?None")
@pytest.mark.parametrize(("module", "monitor", "remedy"), NOTHING, ids=lambda value: type(value).__name__)
def test_a_monitor_that_recorded_nothing_says_once_what_to_do_and_goes_on(module, monitor, remedy):
    module, text = module(), f"monitor {type(monitor).__name__}: recorded nothing; {remedy}"
    with pytest.warns(UserWarning, match=text) as warned:
        fit(module, [monitor], steps=3, loader=batches(6))
    assert len([w for w in warned if "recorded nothing" in str(w.message)]) == 1
    assert module.trainer.global_step == 3


def test_a_measurement_by_hand_that_found_nothing_says_so():
    with pytest.warns(UserWarning, match="recorded nothing"):
        EVERY["activations"](1).measure(nn.Linear(6, 3), torch.randn(2, 6))


@pytest.mark.parametrize(
    ("given", "recorded"),
    [
        ({"own/x": 0.5, "own/n": 3, "own/t": torch.tensor(2.0)}, {"own/x": 0.5, "own/n": 3.0, "own/t": 2.0}),
        ({"own/x": "half"}, "compute gave str for own/x; give a real number"),
        ({"own/x": torch.ones(3)}, r"compute gave torch.float32 of \(3,\) for own/x; give a real number"),
        ({"own/x": torch.tensor(1j)}, "compute gave torch.complex64"),
        ([0.5], "compute gave list; give a dict of tags and numbers"),
    ],
)
def test_a_monitor_of_ones_own_gives_numbers_of_any_kind_and_nothing_else(given, recorded):
    class Own(monitors.Monitor):
        def keys(self):
            return {"own"}

        def compute(self, module, batches, step):
            return given

    if isinstance(recorded, dict):
        assert Own(every_n_steps=1).measure(Small(), next(iter(batches(1)))) == recorded
    else:
        with pytest.warns(UserWarning, match=recorded):
            fit(Small(), [Own(every_n_steps=1)], steps=2)


def test_a_plain_module_is_not_taken_for_a_compiled_one():
    assert not is_compiled(Small())


class Network(nn.Sequential):
    """torch 2.11 compiles no forward of torch's own."""

    def forward(self, x):
        return super().forward(x)


@pytest.mark.integration
def test_compiled_module_does_measured_steps_uncompiled_and_all_others_compiled():
    compiled_passes = []

    def backend(graph, inputs):
        def run(*arguments):
            compiled_passes.append(1)
            return graph(*arguments)

        return run

    expected = fit(Small(dropout=0), [EVERY["activations"](3), EVERY["gradients"](3)], steps=7).values
    module = Small(dropout=0)
    module.model = Network(*module.model)
    module.model.compile(backend=backend)
    measured = fit(module, [EVERY["activations"](3), EVERY["gradients"](3)], steps=7).values
    assert measured == pytest.approx(expected, nan_ok=True)
    assert len(compiled_passes) == 7 - 3  # steps 0, 3 and 6 are measured, the end by passes of its own


def test_a_place_that_runs_later_is_no_reason_to_warn(recwarn):
    """As with stochastic depth, a measured pass may leave layers out."""

    class Skips(Small):
        def loss(self, batch):
            x, y = batch
            out = self.model(x) if len(self.losses) > 1 else self.model[-1](x[:, :1] * torch.ones(8))
            return nn.functional.cross_entropy(out, y)

    monitor = EVERY["activations"](1)
    fit(Skips(), [monitor], steps=3)
    assert {step for values in monitor.recorded.values() for step, _ in values} == {2, 3}
    assert not [w for w in recwarn if "recorded nothing" in str(w.message)]
    monitors.measure_without_fit([EVERY["activations"](1)], Skips(), batches(1).dataset.tensors, [])
    assert [w for w in recwarn if "recorded nothing" in str(w.message)]


def test_gradients_are_read_once_in_a_step_that_takes_several_passes():
    class Newton(Small):
        def configure_optimizers(self):
            return torch.optim.LBFGS(self.parameters(), max_iter=3)

    watch = [EVERY["gradients"](1), EVERY["covariate_shift_proxies"](2)]
    plain, module = Newton(dropout=0), Newton(dropout=0)
    (x, y), *_ = loader = batches(2)
    plain.loss((x, y)).backward()
    norm = torch.cat([p.grad.flatten() for p in plain.parameters()]).norm().item()
    fit(module, watch, steps=2, loader=loader)
    assert watch[0].recorded["gradient_norm/network"][0] == (0, pytest.approx(norm, rel=1e-5))
    assert watch[1].recorded


def test_complex_weights_have_no_numbers_of_real_ones():
    class Complex(Small):
        def __init__(self):
            super().__init__()
            self.model = nn.Linear(6, 3, dtype=torch.cfloat)

        def loss(self, batch):
            return nn.functional.cross_entropy(self.model(batch[0].cfloat()).abs(), batch[1])

    module, batch = Complex(), next(iter(batches(1)))
    for name in ("hessian", "gradient_noise", "smoothness", "internal_covariate_shift"):
        with pytest.raises(ValueError, match="complex parameters have no such number; leave the monitor out"):
            EVERY[name](2).measure(module, batch)
    module.loss(batch).backward()
    norm = sum(p.grad.abs().square().sum() for p in module.parameters()).sqrt().item()
    assert EVERY["gradients"](2).measure(module, batch)["gradient_norm/network"] == pytest.approx(norm)


@pytest.mark.integration
def test_nothing_is_said_of_the_hooks_that_a_measured_step_has():
    module = Small(dropout=0)
    module.model = torch.compile(module.model, backend="eager")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*global hooks")
        fit(module, [EVERY["activations"](1), EVERY["representation"](1)], steps=2)


def test_a_diverged_network_gives_values_that_are_not_finite_and_no_crash():
    module = Small()
    with torch.no_grad():
        module.model[0].weight.fill_(float("inf"))
    measured = fit(module, [make(2) for make in EVERY.values()], steps=2).values
    assert any(np.isnan(value) for value in measured.values())


def test_every_extra_pass_starts_from_the_same_random_numbers_and_buffers():
    module, batch = Small(dropout=0.5), batches(1).dataset.tensors
    with untouched(module):
        losses = [loss_of(module, batch) for _ in range(2)]
        assert torch.equal(*losses)
        assert module.model[1].num_batches_tracked == 0
        losses[0].backward()  # each pass kept its own


class SkipsEmpty(Small):
    def training_step(self, batch, batch_idx):
        return self.loss(batch) if len(batch[0]) else None


@pytest.mark.filterwarnings("ignore:.training_step. returned")
def test_a_batch_without_samples_is_left_out_and_said_and_the_next_is_measured():
    monitors_of = [EVERY[name](2) for name in ("activations", "covariate_shift")]
    module, (x, y) = SkipsEmpty(), next(iter(batches(1)))
    empty = (x[:0], y[:0])
    loader = torch.utils.data.DataLoader([(x, y), (x, y), empty, *[(x, y)] * 3], batch_size=None)
    with pytest.warns(UserWarning, match="leaves a batch without samples out"):
        fit(module, monitors_of, steps=4, loader=loader)
    for monitor in monitors_of:
        assert not monitor.stopped
        assert np.isfinite([value for values in monitor.recorded.values() for _, value in values]).all()
        assert next(step for step, _ in next(iter(monitor.recorded.values()))) == 0
    with pytest.raises(ValueError, match="the batch has no samples"):
        monitors_of[0].measure(Small(), empty)


def test_what_one_sample_cannot_have_is_left_out():
    network = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
    batch = (torch.randn(1, 6), torch.zeros(1, dtype=torch.long))
    found = EVERY["representation"](2).measure(network, batch)
    assert {tag.partition("/")[0] for tag in found} == {"q_value", "effective_rank", "orthogonality_gap"}
    assert np.isfinite(list(found.values())).all()
    with pytest.warns(UserWarning, match="at least four samples"):
        assert EVERY["gradient_noise"](2).measure(network, batch) == {}
