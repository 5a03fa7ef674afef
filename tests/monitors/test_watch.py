"""A loop of one's own is watched: the numbers, tags and bits of a fit, whatever the network takes."""

import contextlib
import copy
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from odd_modules import Graphs
from small_module import Small, batches, fit
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from test_base import EVERY, assert_same, hooks
from torch import nn
from torch.nn import functional as F

import normexp
from normexp.monitors import (
    Activations,
    CovariateShift,
    Gradients,
    InternalCovariateShift,
    Smoothness,
    Stream,
)


def network():
    return Small().model


def loop(model, *, watched=None, over=False, steps=6, loader=None, scale=1, validate=False):
    """A plain loop with the optimizer of `Small`."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    data = loader or batches(steps)
    for x, y in watched.over(data) if over else data:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if validate:
            model.eval()
            with torch.no_grad():
                model(torch.full_like(x, 100.0))
            model.train()
    return model.state_dict()


def recorded_by_lightning(monitors, steps=6):
    module = Small()
    fit(module, monitors, steps=steps)
    return module.model.state_dict(), {tag: values for m in monitors for tag, values in m.recorded.items()}


def test_numbers_tags_and_bits_of_a_loop_are_those_of_a_fit(tmp_path):
    weights, expected = recorded_by_lightning([Activations(every_n_steps=2), Gradients(every_n_steps=2)])
    model = network()
    with normexp.watch(model, every=2, to=tmp_path, only="*") as watched:
        assert_same(loop(model, validate=True), weights)
    in_training = {tag: [one for one in values if one[0] < 6] for tag, values in expected.items()}
    assert watched.recorded == in_training
    assert "dead_fraction/layer04_model_4" in watched.recorded
    assert hooks(model) == 0
    events = EventAccumulator(str(tmp_path)).Reload()
    assert set(events.Tags()["scalars"]) == in_training.keys()
    logged = [(e.step, e.value) for e in events.Scalars("gradient_norm/network")]
    assert logged == [(step, pytest.approx(value)) for step, value in in_training["gradient_norm/network"]]
    assert b"Percentile bands" in events.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0]


@pytest.mark.parametrize("name", EVERY)
def test_monitors_with_passes_of_their_own_measure_what_they_do_in_a_fit(name):
    weights, expected = recorded_by_lightning([EVERY[name](2)])
    model, monitor = network(), EVERY[name](2)
    with normexp.watch(model, monitors=[monitor], loss=F.cross_entropy) as watched:
        assert_same(loop(model, watched=watched, over=True), weights)
    assert watched.recorded.keys() == expected.keys()
    for tag, values in expected.items():
        assert watched.recorded[tag] == values, tag


def test_a_loss_that_nobody_knows_is_asked_for_once_and_the_loop_goes_on():
    plain, model = network(), network()
    loop(plain)
    watched = normexp.watch(model, monitors=[Smoothness(every_n_steps=1)])
    with pytest.warns(UserWarning, match="monitor Smoothness: no loss is known: pass loss=") as said, watched:
        loop(model)
    assert len([one for one in said if "Smoothness" in str(one.message)]) == 1
    assert_same(model.state_dict(), plain.state_dict())


def test_only_chosen_tags_are_recorded_and_strict_ends_the_loop():
    model = network()
    with normexp.watch(model, every=2, only=["gradient_norm/*", "update_ratio/layer00*"]) as watched:
        loop(model)
    assert {tag.split("/")[0] for tag in watched.recorded} == {"gradient_norm", "update_ratio"}
    assert {tag for tag in watched.recorded if "update" in tag} == {"update_ratio/layer00_model_0"}
    for strict in (True, False):
        broken = Gradients(every_n_steps=1)
        broken.watch, broken.strict = lambda *given: 1 / 0, not strict
        watched = normexp.watch(network(), monitors=[broken], strict=strict)
        with pytest.raises(ZeroDivisionError), watched:
            loop(watched.model)
        assert hooks(watched.model) == 0
    with pytest.raises(ValueError, match="every=0"):
        normexp.watch(model, every=0)


def test_a_copy_of_the_network_and_another_optimizer_are_none_of_its_steps():
    model, other = network(), nn.Linear(2, 2)
    unwatched = copy.deepcopy(model).eval()
    with normexp.watch(model, every=1) as watched:
        average = copy.deepcopy(model).eval()
        other(torch.ones(2)).sum().backward()
        torch.optim.SGD(other.parameters(), 0.1).step()
        assert torch.equal(average(torch.ones(4, 6)), unwatched(torch.ones(4, 6)))
        assert watched.global_step == 0
        loop(model, steps=2)
        assert watched.global_step == 2
    assert {step for step, _ in watched.recorded["gradient_norm/network"]} == {0, 1}


def by_parts(model, x, y):
    return F.cross_entropy(model[1:](model[:1](x)), y)


def in_eval_mode(model, x, y):
    return F.cross_entropy(model.eval()(x), y)


def without_optimizer(model, x, y):
    for p in model.parameters():
        p.data -= 0.1 * torch.autograd.grad(p.square().sum(), p)[0]
    return F.cross_entropy(model(x), y)


NEVER = "watch: 2 steps, but Sequential was never called in training mode .*; watch the module that the"
NO_STEP = "watch: no torch optimizer stepped weights of Sequential, so no step was measured"


@pytest.mark.parametrize(
    ("loss", "said"), [(by_parts, NEVER), (in_eval_mode, NEVER), (without_optimizer, NO_STEP)]
)
def test_a_loop_of_which_nothing_is_seen_is_told_what_is_missing(loss, said):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    watched = normexp.watch(model, every=1)

    def run():
        with watched:
            for x, y in batches(2):
                loss(model, x, y).backward()
                if loss is not without_optimizer:
                    optimizer.step()

    with pytest.warns(UserWarning, match=said):
        run()
    assert watched.recorded == {}


def test_the_parts_of_a_network_are_watched_apart():
    """As of a GAN, which nobody calls as a whole."""

    def trained(watch):
        parts = torch.nn.ModuleList([network(), network()])
        optimizers = [torch.optim.SGD(part.parameters(), 0.1) for part in parts]
        with warnings.catch_warnings(action="error"), watch(parts[0]) as one, watch(parts[1]) as other:
            for (x, y), turn in zip(batches(4), (0, 1, 0, 1), strict=True):
                loss = F.cross_entropy(parts[1](parts[0](x) @ torch.ones(3, 6)), y)
                loss.backward()
                optimizers[turn].step()
                parts.zero_grad()
        return parts.state_dict(), one, other

    weights, *_ = trained(contextlib.nullcontext)
    watched, *both = trained(lambda part: normexp.watch(part, every=1))
    assert_same(watched, weights)
    for one in both:
        assert [step for step, _ in one.recorded["gradient_norm/network"]] == [0, 1]
        assert any(tag.startswith("activation_std/") for tag in one.recorded)


@pytest.mark.parametrize("named", [False, True])
def test_gradients_that_come_inside_a_step_are_those_of_its_first_pass(named):
    plain, model = Small(dropout=0).model, Small(dropout=0).model
    x, y = next(iter(batches(1)))
    F.cross_entropy(plain(x), y).backward()
    total = torch.cat([p.grad.flatten() for p in plain.parameters()]).norm().item()
    weights = plain[0].state_dict()

    def step(net):
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure=closure) if named else optimizer.step(closure)

    with warnings.catch_warnings(action="error"), normexp.watch(model, every=1) as watched:
        loss = step(model)
    moved = [torch.cat([w["weight"].flatten(), w["bias"]]) for w in (model[0].state_dict(), weights)]
    expected = ((moved[0] - moved[1]).norm() / moved[1].norm()).item()
    assert watched.recorded["gradient_norm/network"] == [(0, pytest.approx(total, rel=1e-5))]
    assert watched.recorded["update_ratio/layer00_model_0"] == [(0, pytest.approx(expected, rel=1e-5))]
    assert step(Small(dropout=0).model).item() == loss.item()


@pytest.mark.filterwarnings("ignore")  # torch gives it up
def test_a_scripted_network_is_refused():
    with pytest.raises(ValueError, match=r"model: is scripted or traced, .*; pass the module it was made of"):
        normexp.watch(torch.jit.script(nn.Linear(2, 2)))


def test_the_loss_is_logged_at_the_pace_of_the_monitors(tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    paces = [Activations(every_n_steps=4), Gradients(every_n_steps=2)]
    with normexp.watch(model, monitors=paces, to=tmp_path) as watched:
        for x, y in batches(4):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            watched.step(loss)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [e.step for e in events.Scalars("Loss/train")] == [0, 2]
    assert events.Scalars("Loss/train")[-1].value != pytest.approx(loss.item())


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, first, second):
        return F.relu(self.a(first)) + self.b(second)


class Named(Two):
    """As in Hugging Face: called by name, with the loss in the output."""

    def forward(self, first=None, second=None, labels=None):
        out = super().forward(first, second)
        return {"logits": out, "loss": F.cross_entropy(out, labels)}


class OfDict(Two):
    def forward(self, batch):
        return super().forward(batch["first"], batch["second"])


class OfObject(Two):
    def forward(self, graph):
        return super().forward(graph.x, graph.y)


class Many(Two):
    def forward(self, *both):
        return super().forward(*both)


class Scaled(nn.Linear):
    def forward(self, x, scale=None):
        return super().forward(x if scale is None else scale * x)


def of_two(net):
    return F.cross_entropy(F.relu(net.a(FIRST)) + net.b(SECOND), LABELS)


def of_numbers(net):
    return F.mse_loss(F.linear(FIRST, net.weight, net.bias), SECOND)


FIRST, SECOND = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 0, 1])
NAMED = {"first": FIRST, "second": SECOND, "labels": LABELS}
IMAGES, PIXELS, CLASSES = torch.randn(2, 3, 4, 4), torch.randint(3, (2, 4, 4)), torch.randint(3, (5,))
GIVEN = {  # a network, a batch, a loss; and the twin of the loss that is measured
    "two by position": (Two, (FIRST, SECOND, LABELS), None, of_two),
    "two in one": (Two, ((FIRST, SECOND), LABELS), None, of_two),
    "as many as there are": (Many, (FIRST, SECOND, LABELS), None, of_two),
    "by name": (Named, NAMED, None, of_two),
    "a dictionary as one": (OfDict, NAMED, None, of_two),
    "a loss of its own": (Two, (FIRST, SECOND, LABELS), F.cross_entropy, of_two),
    "an object": (OfObject, Graphs(FIRST, SECOND), lambda out, _: F.cross_entropy(out, LABELS), of_two),
    "one tensor": (
        lambda: nn.Linear(4, 3), FIRST, lambda out, _: out.square().mean(), lambda net: net(FIRST).square().mean()
    ),
    "numbers": (lambda: nn.Linear(4, 4), (FIRST, SECOND), None, of_numbers),
    "numbers beside an option": (lambda: Scaled(4, 4), (FIRST, SECOND), None, of_numbers),
    "classes of pixels": (
        lambda: nn.Conv2d(3, 3, 1), (IMAGES, PIXELS), None, lambda net: F.cross_entropy(net(IMAGES), PIXELS)
    ),
    "classes of tokens": (
        lambda: nn.Linear(4, 3), (FIRST[None], CLASSES[None]), None, lambda net: F.cross_entropy(net(FIRST), CLASSES)
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", GIVEN)
def test_measure_takes_any_network_and_any_batch(what):
    make, batch, loss, twin = GIVEN[what]
    model = make()
    found = Gradients(every_n_steps=1, per_parameter=True).measure(model, batch, loss=loss)
    twin(model).backward()
    for name, p in model.named_parameters():
        assert found[f"parameter_gradient_norm/model.{name}"] == pytest.approx(p.grad.norm().item(), rel=1e-5)


def test_a_loss_that_cannot_be_guessed_is_asked_for():
    x, wrong = torch.ones(2, 4), torch.ones(2, 3)
    targets = (torch.ones(2), wrong.bool(), torch.ones(2).bool(), wrong.long(), "a text")
    for batch in (x, *((x, target) for target in targets)):
        with pytest.raises(ValueError, match="no loss"):
            Gradients(every_n_steps=1).measure(nn.Linear(4, 3), batch)
    assert Activations(every_n_steps=1).measure(nn.Sequential(nn.Linear(4, 3), nn.ReLU()), x)


def test_a_network_with_its_loss_in_its_output_needs_nothing_else():
    model = Named()
    monitors = [kind(every_n_steps=1) for kind in (CovariateShift, Stream, InternalCovariateShift)]
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with warnings.catch_warnings(), normexp.watch(model, monitors=monitors) as watched:
        warnings.filterwarnings("ignore", "monitor Stream: recorded nothing")
        for _ in range(2):
            model(**NAMED)["loss"].backward()
            optimizer.step()
    assert {tag.split("/")[0] for tag in watched.recorded} >= {"mean_drift", "input_std", "ics_distance"}
    assert [step for step, _ in watched.recorded["input_std/layer00_model_a"]] == [0, 1, 2]


@pytest.mark.parametrize("page", ["monitors.md", "own_networks.md"])
def test_the_loop_of_the_docs(page, tmp_path, monkeypatch):
    kind = "loop" if page == "monitors.md" else "accelerate"
    if kind == "accelerate":
        pytest.importorskip("accelerate")
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    snippet = text.split(f"<!-- tested {kind} -->\n```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    names = {"model": model, "loader": batches(3), "F": F, "optimizer": optimizer}
    exec(snippet, names)
    assert names["w"].recorded["gradient_norm/network"][0][0] == 0
    assert EventAccumulator(str(tmp_path / "runs" / "x")).Reload().Tags()["scalars"]
    if kind == "accelerate":
        assert "cross_entropy" in names["watched"][0].result.facts[0]


@pytest.mark.integration
def test_a_trainer_of_transformers_is_watched(tmp_path):
    transformers = pytest.importorskip("transformers")

    def trained(callbacks):
        torch.manual_seed(0)
        sizes = transformers.LlamaConfig(
            vocab_size=31, num_hidden_layers=2, max_position_embeddings=16, hidden_size=16, intermediate_size=32,
            num_attention_heads=4, num_key_value_heads=2,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(sizes)
        texts = torch.randint(31, (24, 8), generator=torch.Generator().manual_seed(0))
        options = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=4, per_device_train_batch_size=4, report_to=[], use_cpu=True,
            save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        data = [{"input_ids": text, "labels": text} for text in texts]
        transformers.Trainer(model, options, train_dataset=data, callbacks=callbacks).train()
        return model.state_dict()

    weights = trained([])
    monitors = [make(2) for make in EVERY.values()] + [Stream(every_n_steps=2)]
    callback = normexp.monitors.trainer_callback(monitors=monitors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(trained([callback]), weights)
    watched = callback.watch
    assert watched.global_step == 4
    assert [step for step, _ in watched.recorded["gradient_norm/network"]] == [0, 2, 4]
    assert any(tag.startswith("attention_entropy/") for tag in watched.recorded)
    assert EventAccumulator(str(tmp_path / "runs")).Reload().Tags()["scalars"]


@pytest.mark.parametrize("own", [False, True])
def test_a_callback_of_transformers_writes_beside_the_checkpoints_or_as_told(own, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    callback = normexp.monitors.trainer_callback(**({"to": tmp_path / "own"} if own else {}))
    arguments, state = SimpleNamespace(output_dir=str(tmp_path)), SimpleNamespace(global_step=3)
    callback.on_train_begin(arguments, state, None, model=network())
    assert callback.watch.global_step == 3
    callback.watch._updated = callback.watch._called = 1
    callback.on_train_end(arguments, state, None)
    assert list((tmp_path / ("own" if own else "runs")).glob("events*"))
    assert len(list(tmp_path.iterdir())) == 1


def stepped(make_optimizers, at_once):
    """A watched loop in which several optimizers take a step together."""
    model = network()
    optimizers = make_optimizers(model)
    with normexp.watch(model, every=1) as watched:
        for n, (x, y) in enumerate(batches(3)):
            F.cross_entropy(model(x), y).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            if n or at_once:  # what happens to weights before the next pass is no part of a step
                assert watched.recorded["gradient_norm/network"][-1][0] == n
    return watched


@pytest.mark.parametrize("left_out", [False, True])
def test_a_step_that_several_optimizers_take_has_the_change_of_all_weights(left_out):
    def together(model):
        return [torch.optim.SGD((model[:6] if left_out else model).parameters(), 0.1)]

    def apart(model):
        parts = [model[0].parameters(), model[1:6].parameters(), model[6].parameters()]
        return [torch.optim.SGD(part, 0.1) for part in parts[: 2 if left_out else 3]]

    watched, expected = stepped(apart, at_once=not left_out), stepped(together, at_once=not left_out)
    assert watched.recorded == expected.recorded
    assert watched.global_step == 3
    moves = {tag: [x for _, x in of] for tag, of in watched.recorded.items() if "update_ratio" in tag}
    assert len(moves) == 3
    assert all((min(of) > 0) is not (left_out and "_6" in tag) for tag, of in moves.items())
