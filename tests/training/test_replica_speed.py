"""What makes replicas fast changes no bit: large dense layers, checkpoints written at once."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

from normexp.build import build_all
from normexp.composition import compose
from normexp.runs import files
from normexp.training.checkpoint import WholeCheckpoints
from normexp.training.replicas import replica_linear
from normexp.training.replicas.replica_module import ReplicaModule

R = 6


def stacked(inputs: int, outputs: int) -> nn.Linear:
    """A layer as a ReplicaModule has it: its weights are those of R layers."""
    layer = nn.Linear(inputs, outputs)
    layer.weight.data, layer.bias.data = torch.randn(R, outputs, inputs), torch.randn(R, outputs)
    return layer


def outputs_and_gradients(layer: nn.Linear, x: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    layer.zero_grad()
    y = torch.vmap(lambda weights, one: functional_call(layer, weights, (one,)))(
        dict(layer.named_parameters()), x
    )
    y.square().sum().backward()
    return [y, x.grad, layer.weight.grad, layer.bias.grad]


@pytest.mark.parametrize("sizes", [(64, 784, 128), (4, 128, 128), (60, 100, 10), (512, 256, 256)], ids=str)
@pytest.mark.parametrize("tokens", [(), (3,)], ids=["rows", "tokens"])
def test_a_large_layer_has_the_bits_of_vmap(monkeypatch, sizes, tokens):
    monkeypatch.setattr(replica_linear, "LARGE", 1)
    samples, inputs, outputs = sizes
    torch.manual_seed(0)
    layer, x = stacked(inputs, outputs), torch.randn(R, samples, *tokens, inputs)
    expected = outputs_and_gradients(layer, x)
    replica_linear.use_in(layer)
    assert "forward" in vars(layer)
    found = outputs_and_gradients(layer, x)
    assert [torch.equal(a, b) for a, b in zip(found, expected, strict=True)] == [True] * 4
    assert layer.weight.grad.is_contiguous()  # so autograd did not copy it


def test_a_large_layer_equals_one_layer_after_the_other_in_float64(monkeypatch):
    monkeypatch.setattr(replica_linear, "LARGE", 1)
    layer = stacked(5, 3).double()
    x = torch.randn(R, 4, 5, dtype=torch.float64)
    replica_linear.use_in(layer)
    y, _, weight, bias = outputs_and_gradients(layer, x)
    for one in range(R):
        own = [part.detach()[one].clone().requires_grad_() for part in (layer.weight, layer.bias)]
        alone = F.linear(x[one], *own)
        alone.square().sum().backward()
        torch.testing.assert_close([y[one], weight[one], bias[one]], [alone, own[0].grad, own[1].grad])


def test_small_layers_stay_as_they_are():
    layer = stacked(8, 8)
    replica_linear.use_in(layer)
    assert "forward" not in vars(layer)


def test_training_with_several_rates_takes_each_its_own_step():
    """The step of the largest rate, then a part of it: against SGD with momentum of each replica alone, in float64."""
    options = [
        "recipe=plain",
        "trainer=cpu",
        "monitor=none",
        "norm=layernorm",
        "model.depth=1",
        "model.width=16",
    ]
    parts = build_all(
        *compose([*options, "replicas.seeds=1", "replicas.lr=[0.3,0.1,0.03]", "schedule=constant"])
    )
    alone = build_all(
        *compose([*options, "replicas.seeds=1", "replicas.lr=[0.3,0.1,0.03]", "schedule=constant"])
    )
    for own in (*parts, *alone):
        own.module.double()
    rates = [0.3, 0.1, 0.03]
    module = ReplicaModule([own.module for own in parts], rates)
    module.trainer = type("Trainer", (), {"precision": "64-true"})()
    module._trainer = module.trainer
    module.bind()
    optimizer = module.configure_optimizers()
    optimizer = optimizer["optimizer"] if isinstance(optimizer, dict) else optimizer
    x, y = parts[0].data.probe_batch(32)
    batch = (x.double().repeat(3, 1, 1, 1), y.repeat(3))
    others = [own.module.make_optimizer(own.module.parameters()) for own in alone]
    for step in range(4):
        optimizer.zero_grad()
        module.training_step(batch, step)["loss"].backward()
        optimizer.step()
        for own, other in zip(alone, others, strict=True):
            other.zero_grad()
            own.module.train().training_step((x.double(), y), step)["loss"].backward()
            other.step()
    for own, other in zip(parts, alone, strict=True):
        for name, value in own.module.state_dict().items():
            torch.testing.assert_close(value, other.module.state_dict()[name])


def test_checkpoints_of_one_block_are_written_at_its_end(tmp_path, monkeypatch):
    written = []
    atomic_write = files.atomic_write

    def seen(path, **options):
        written.append(path.parent.parent.name)
        return atomic_write(path, **options)

    monkeypatch.setattr("normexp.training.checkpoint.atomic_write", seen)
    saver = WholeCheckpoints()
    paths = [tmp_path / str(run) / "checkpoints" / "last.ckpt" for run in range(3)]
    with saver.at_once():
        for step in (1, 2):  # the second of a path counts
            for path in paths:
                saver.save_checkpoint({"step": step}, path)
        assert written == []
        assert not any(path.exists() for path in paths)
    assert sorted(written) == ["0", "1", "2"]
    assert [torch.load(path, weights_only=True) for path in paths] == [{"step": 2}] * 3
    saver.save_checkpoint({"step": 3}, paths[0])  # outside, at once
    assert torch.load(paths[0], weights_only=True) == {"step": 3}


def test_checkpoints_that_wait_are_written_when_that_is_asked_for(tmp_path):
    saver, path = WholeCheckpoints(), tmp_path / "0" / "checkpoints" / "last.ckpt"
    with saver.at_once():
        saver.save_checkpoint({"step": 1}, path)
        assert not path.exists()
        saver.write_waiting()
        assert torch.load(path, weights_only=True) == {"step": 1}
        saver.save_checkpoint({"step": 2}, path)
        assert torch.load(path, weights_only=True) == {"step": 1}
    assert torch.load(path, weights_only=True) == {"step": 2}


def test_an_error_in_the_block_loses_no_checkpoint_and_a_full_disk_is_told(tmp_path, monkeypatch):
    saver, path = WholeCheckpoints(), tmp_path / "0" / "checkpoints" / "last.ckpt"

    def save_and_fail():
        with saver.at_once():
            saver.save_checkpoint({"step": 1}, path)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        save_and_fail()
    assert torch.load(path, weights_only=True) == {"step": 1}

    def full(path, **_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("normexp.training.checkpoint.atomic_write", full)
    with pytest.raises(OSError, match="No space left"), saver.at_once():
        saver.save_checkpoint({"step": 2}, path)
    assert torch.load(path, weights_only=True) == {"step": 1}


def test_many_bytes_are_not_kept_waiting(tmp_path, monkeypatch):
    monkeypatch.setattr("normexp.training.checkpoint.MOST_WAITING", 1)
    saver, path = WholeCheckpoints(), tmp_path / "0" / "checkpoints" / "last.ckpt"
    with saver.at_once():
        saver.save_checkpoint({"step": 1}, path)
        assert path.exists()


def test_an_evaluation_in_parts_has_the_bits_of_the_whole(monkeypatch):
    for model in ("mlp", "cnn", "transformer"):
        options = ["recipe=plain", "trainer=cpu", f"model={model}", "norm=batchnorm", "monitor=none"]
        (parts,) = build_all(*compose(options))
        x, _ = parts.data.probe_batch(280)
        module = parts.module.eval()
        with torch.no_grad():
            whole = module.logits_of(x)
            monkeypatch.setattr("normexp.lit_model.EVALUATED_AT_ONCE", 64)
            assert torch.equal(module.evaluated(x), whole)
