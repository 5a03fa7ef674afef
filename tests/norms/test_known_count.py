"""A layer reads its count of batches from the device once, and again where something else changed it."""

import copy

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from normexp.norms.batch_norm import BatchNorm, KnownCount
from normexp.norms.batch_norm_variants import NoisyBatchNorm


class Reads(TorchDispatchMode):
    """Counts `.item()`, which on a GPU waits for the device."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*arguments, **(options or {}))


LAYERS = {"frozen": lambda: BatchNorm(4, freeze_after=3), "noisy": lambda: NoisyBatchNorm(4)}


@pytest.mark.parametrize("name", LAYERS)
def test_steps_do_not_wait_for_the_device(name):
    layer, x = LAYERS[name](), torch.randn(8, 4)
    with Reads() as reads:
        for _ in range(6):
            layer(x)
    assert reads.count == 1
    assert layer.num_batches_tracked == (3 if name == "frozen" else 6)


@pytest.mark.parametrize("name", LAYERS)
def test_outputs_are_those_of_a_layer_that_reads_at_every_step(name, monkeypatch):
    xs = torch.randn(6, 8, 4)
    outputs = [layer(x) for layer in [LAYERS[name]()] for x in xs]
    monkeypatch.setattr(KnownCount, "read", lambda self, count: int(count))
    expected = [layer(x) for layer in [LAYERS[name]()] for x in xs]
    assert all(torch.equal(a, b) for a, b in zip(outputs, expected, strict=True))


def changes():
    def loaded(layer):
        layer.load_state_dict({**layer.state_dict(), "num_batches_tracked": torch.tensor(40)})

    def in_place(layer):
        layer.num_batches_tracked.fill_(40)

    def another_tensor(layer):
        layer._buffers["num_batches_tracked"] = torch.tensor(40)

    return [loaded, in_place, another_tensor]


@pytest.mark.parametrize("change", changes(), ids=lambda change: change.__name__)
def test_a_count_that_something_else_changed_is_read_again(change):
    layer, x = LAYERS["noisy"](), torch.randn(8, 4)
    layer(x)
    change(layer)
    layer(x)
    assert layer.num_batches_tracked == 41
    assert layer.batches.read(layer.num_batches_tracked) == 41


def test_a_buffer_that_was_put_away_and_back_is_still_known():
    """As a monitor does around a pass of its own."""
    layer, x = LAYERS["noisy"](), torch.randn(8, 4)
    layer(x)
    own = layer.num_batches_tracked
    layer._buffers["num_batches_tracked"] = own.clone()
    layer(x)
    layer._buffers["num_batches_tracked"] = own
    layer(x)
    assert layer.batches.read(own) == own.item() == 2


def test_a_copy_of_a_layer_reads_its_own_count():
    layer, x = LAYERS["noisy"](), torch.randn(8, 4)
    layer(x)
    twin = copy.deepcopy(layer)
    for _ in range(3):
        twin.num_batches_tracked.add_(10)  # as often as the original's count was changed, and more
    twin(x)
    assert twin.batches.read(twin.num_batches_tracked) == twin.num_batches_tracked.item() == 32
    assert layer.batches.read(layer.num_batches_tracked) == 1
