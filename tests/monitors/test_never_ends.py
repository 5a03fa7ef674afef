"""A monitor ends no training and changes none: random odd modules and steps, with every monitor."""

import warnings

import pytest
import torch
from odd_modules import ODDITIES, STATES, drawn, trained
from small_module import Small, fit
from test_base import EVERY as BASE
from test_base import assert_same, hooks

import normexp.monitors as monitors

EVERY = BASE | {
    "stream": lambda n: monitors.Stream(every_n_steps=n),
    "adaptation": lambda n: monitors.Adaptation(every_n_steps=n),
    "adversarial_noise": lambda n: monitors.AdversarialNoise(every_n_steps=n),
    "every place": lambda n: monitors.Activations(
        every_n_steps=n, places=["norm_input", "norm_output", "preactivation", "activation", "residual"]
    ),
    "as often as it likes": lambda n: monitors.Gradients(every_n_steps=None, angles=True),
}
ODD = [frozenset({word}) for word in STATES + ODDITIES] + [drawn(seed) for seed in range(12)]
OF_IMAGES = {"adaptation", "adversarial_noise"}  # what they ask for, these batches have not
WITHOUT_GRADIENTS = {"batch_statistics", "covariate_shift", "representation", "stream"}
STOPS = {  # a word -> the monitors that it stops; no other monitor stops
    **dict.fromkeys(("gradients", "backward", "once"), WITHOUT_GRADIENTS),
    "second order": {"hessian"},
    "a reentrant checkpoint": {"hessian"},
    "pair": {"activations", "every place"},
    "sparse": {"covariate_shift_proxies", "gradient_noise", "hessian", "smoothness"},
    "other size": {*WITHOUT_GRADIENTS, "gradient_noise", "hessian"},
    "own batch": {"gradient_noise"},
    "manual": EVERY.keys() - OF_IMAGES,
}
# Lightning says that the teacher is in eval mode.
pytestmark = pytest.mark.filterwarnings("ignore:Found .* module:UserWarning")
plain = {}  # what is drawn -> its training without instruments


def assert_ends_and_changes_nothing(odd, callbacks):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if odd not in plain:
            plain[odd] = trained(odd, [])
        watched = trained(odd, callbacks)
    assert watched.keys() == plain[odd].keys()
    for name, value in plain[odd].items():
        assert torch.equal(value, watched[name]), (sorted(odd), name)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ", ".join(sorted(odd)))
def test_an_odd_training_has_the_same_bits_with_all_monitors_and_stops_few(odd):
    monitors = {name: make(2) for name, make in EVERY.items()}
    assert_ends_and_changes_nothing(odd, monitors.values())
    stopped = {name for name, one in monitors.items() if one.stopped or not one.recorded}
    assert stopped - OF_IMAGES == set().union(*(STOPS.get(word, ()) for word in odd))


@pytest.mark.integration
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ", ".join(sorted(odd)))
def test_an_odd_training_has_the_same_bits_with_each_monitor(odd):
    for make in EVERY.values():
        assert_ends_and_changes_nothing(odd, [make(2)])


SAID = {  # what stops which monitor, and what it says
    ("second order", "hessian"): "_ctc_loss_backward is not implemented",
    (
        "a reentrant checkpoint",
        "hessian",
    ): "such a checkpoint has no second derivatives; set use_reentrant=False",
    ("manual", "gradients"): "training_step takes steps itself",
    ("own batch", "gradient_noise"): "samples of the batch cannot be counted (Graphs)",
    ("other size", "covariate_shift"): "must match the size",
    **{("gradients", name): "the step takes gradients itself" for name in sorted(WITHOUT_GRADIENTS)},
    ("own batch", "adaptation"): "changes images",
}


@pytest.mark.parametrize(("odd", "name"), SAID)
def test_the_reason_is_said_once_with_the_monitor_and_strict_ends_the_training(odd, name):
    monitor = EVERY[name](1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trained({odd}, [monitor])
    texts = [str(one.message) for one in said if str(one.message).startswith("monitor ")]
    assert len(texts) == 1
    assert texts[0].startswith(f"monitor {type(monitor).__name__}: measures no more, training goes on: ")
    assert SAID[odd, name] in texts[0]
    assert "\n" not in texts[0]
    monitor.strict = True
    warnings.simplefilter("ignore")
    with pytest.raises((RuntimeError, ValueError)):
        trained({odd}, [monitor])


@pytest.mark.parametrize("name", ["gradients", "activations", "smoothness"])
def test_a_batch_without_a_loss_is_passed_over_and_the_next_is_measured(name):
    monitor = EVERY[name](1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained({"skips"}, [monitor])
    steps = {step for values in monitor.recorded.values() for step, _ in values}
    assert {0, 2, 3} <= steps
    assert not monitor.stopped


@pytest.mark.parametrize("where", ["watch", "collect", "before_update", "record"])
def test_an_error_anywhere_in_a_monitor_leaves_no_hook(where):
    monitor, plain, module = monitors.Gradients(every_n_steps=1), Small(), Small()
    fit(plain, [], steps=3)

    def fails(*args, **named):
        raise KeyError("anything")

    setattr(monitor, where, fails)
    with pytest.warns(UserWarning, match="monitor Gradients: measures no more, training goes on: 'anything'"):
        fit(module, [monitor], steps=3)
    assert_same(module.state_dict(), plain.state_dict())
    assert hooks(module) == 0
    assert "training_step" not in vars(module)


def test_a_record_that_fails_inside_the_forward_pass_stops_the_monitor_alone():
    broken, other, alone = monitors.Activations(every_n_steps=1), EVERY["gradients"](1), EVERY["gradients"](1)
    broken._describe = lambda *given: 1 / 0
    trained({"functional"}, [alone])
    with pytest.warns(UserWarning, match="monitor Activations: measures no more, .*: division by zero"):
        trained({"functional"}, [broken, other])
    assert other.recorded == alone.recorded


def test_measuring_by_hand_raises_and_a_later_measure_works():
    monitor, module = monitors.Activations(every_n_steps=1), Small()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        monitor.measure(module, (torch.randn(4, 5), torch.zeros(4, dtype=torch.long)))
    assert hooks(module) == 0
    assert monitor.measure(module, (torch.randn(4, 6), torch.zeros(4, dtype=torch.long)))


def test_a_long_reason_is_cut_and_on_one_line():
    with pytest.warns(UserWarning, match="goes on: ") as said:
        EVERY["gradients"](1).failed(ValueError("why\n" * 200))
    assert str(said[0].message).partition("goes on: ")[2] == ("why " * 200)[:300]
