"""What makes replicas fast changes nothing: rates as parts of the largest, checkpoints written at once."""

import pytest
import torch

from normexp.config.run_spec import specs
from normexp.runs import files
from normexp.training.checkpoint import WholeCheckpoints
from normexp.training.parts import build_all
from normexp.training.replicas.fit_replicas import ReplicaModule


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
    three = specs([*options, "replicas.seeds=1", "replicas.lr=[0.3,0.1,0.03]", "schedule=constant"])
    parts, alone = build_all(three), build_all(three)
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


@pytest.mark.integration
def test_an_evaluation_in_parts_gives_what_the_whole_gives(monkeypatch):
    """In float64: a processor may cut products of other sizes into other sums, so the last bits may differ. A logit is
    a chain of fewer than 20 sums of fewer than 10,000 terms, 20 * 1e4 * 1.1e-16 = 2e-11 of its terms' size."""
    for model in ("mlp", "cnn", "transformer"):
        options = ["recipe=plain", "trainer=cpu", f"model={model}", "norm=batchnorm", "monitor=none"]
        (parts,) = build_all(specs(options))
        x = parts.data.probe_batch(280)[0].double()
        module = parts.module.double().eval()
        with torch.no_grad():
            whole = module.logits_of(x)
            monkeypatch.setattr("normexp.lit_model.EVALUATED_AT_ONCE", 64)
            torch.testing.assert_close(module.evaluated(x), whole, rtol=2e-11, atol=2e-11)
