"""Norms and models on a GPU that is not there: torch's fake tensors have a device and no values, and an operation on
tensors of two devices is an error. What a GPU computes, `DEVICES` and `training/test_gpu.py` compare where one is."""

import copy
import inspect
import warnings

import pytest
import torch
from models.small_models import SMALL, small_batch, small_model
from norms.layers import CASES, LAYOUTS, norm_factory
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from normexp.config.compose import compose
from normexp.models import CNN
from normexp.norms import BatchNorm
from normexp.training.lit_model import loss_and_right

READS_A_COUNT = {"batchnorm_frozen", "batchnorm_noisy"}  # of batches, which a fake tensor has not


def on_fake_gpu(module: nn.Module) -> nn.Module:
    """In the mode of fake tensors: the module with parameters and buffers on a GPU."""
    for child in module.modules():
        for name, value in child.named_parameters(recurse=False):
            fake = torch.empty(value.shape, dtype=value.dtype, device="cuda")
            child._parameters[name] = nn.Parameter(fake, requires_grad=value.requires_grad)
        for name, value in child.named_buffers(recurse=False):
            child._buffers[name] = torch.empty(value.shape, dtype=value.dtype, device="cuda")
    return module


@pytest.fixture(autouse=True)
def statistics_without_values(monkeypatch):
    """torch has no fake version of this kernel."""

    def update_stats(x, *_):
        return x.new_empty(x.shape[1]), x.new_empty(x.shape[1])

    monkeypatch.setattr(torch, "batch_norm_update_stats", update_stats)


@pytest.mark.parametrize(("name", "layout"), [case for case in CASES if case[0] not in READS_A_COUNT])
def test_norm_runs_where_its_input_is(name, layout):
    shape, channel_dim = LAYOUTS[layout]
    layer = copy.deepcopy(norm_factory(name)(8, channel_dim))
    for dtype in (torch.float32, torch.bfloat16):
        with FakeTensorMode():
            fake = on_fake_gpu(layer)
            for training in (True, False):
                y = fake.train(training)(torch.empty(shape, dtype=dtype, device="cuda"))
                assert (y.device.type, y.dtype, y.shape) == ("cuda", dtype, shape)


@pytest.mark.integration
@pytest.mark.parametrize("norm", ["layernorm_annotated", "batchnorm_unbiased", "rmsnorm"])
@pytest.mark.parametrize("name", SMALL)
def test_model_runs_where_its_input_is(name, norm):
    inputs, _ = small_batch(name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="gpt with")
        model = small_model(name, norm)
    with FakeTensorMode():
        fake = on_fake_gpu(model)
        for training in (True, False):
            logits = fake.train(training)(torch.empty(inputs.shape, dtype=inputs.dtype, device="cuda"))
            assert logits.device.type == "cuda"


@pytest.mark.integration
def test_the_fast_network_for_a_gpu_runs_there_and_is_one_graph():
    """Autograd asks the driver for the device, so the backward pass is that of a CPU."""
    config, _ = compose(["model=cnn", "data=cifar10", "recipe=fast", "norm=batchnorm", "trainer=bf16"])
    words = inspect.signature(CNN).parameters
    options = {key: value for key, value in config.model.items() if key in words}
    model = CNN((3, 32, 32), 10, BatchNorm, **options)
    with FakeTensorMode():
        images = torch.empty(config.batch_size, 3, 32, 32, device="cuda")
        targets = torch.empty(config.batch_size, dtype=torch.long, device="cuda")
        loss, right, _ = loss_and_right(on_fake_gpu(model)(images), targets, config.label_smoothing)
        assert (loss.device.type, right.device.type, loss.shape) == ("cuda", "cuda", ())
    small = CNN((3, 32, 32), 10, BatchNorm, **options | {"width": 4})
    graphs = torch._dynamo.explain(small)(torch.randn(2, 3, 32, 32))
    assert (graphs.graph_count, graphs.graph_break_count) == (1, 0)
    small(torch.randn(2, 3, 32, 32)).sum().backward()
    assert all(p.grad is not None for p in small.parameters() if p.requires_grad)


def test_an_operand_on_the_cpu_would_be_noticed():
    class Wrong(nn.Module):
        def forward(self, x):
            return x + torch.ones(x.shape[1])

    with FakeTensorMode(), pytest.raises(RuntimeError, match=r"device"):
        Wrong()(torch.empty(4, 8, device="cuda"))
