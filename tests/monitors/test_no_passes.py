"""Where no pass of its own can be made, an instrument says so, stops alone, and the loop keeps its bits."""

import warnings

import pytest
import torch
import torch.distributed as dist
from test_watch import batches
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn import functional as F

import normexp
from normexp.check import CheckNorms
from normexp.monitors import Activations, Gradients, InternalCovariateShift, Smoothness

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.fixture
def process():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


def backward(model, x, y):
    F.cross_entropy(model(x), y).backward()


def whole(model):
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True), backward


def in_parts(model):
    mesh = init_device_mesh("cpu", (1,))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, backward


def split(model):
    """By tensor parallelism, whose passes can be made."""
    parts = {"3": ColwiseParallel(output_layouts=Replicate())}
    return parallelize_module(model, init_device_mesh("cpu", (1,)), parts), backward


def functional(model):
    def by_func(model, x, y):
        def loss(weights):
            return F.cross_entropy(torch.func.functional_call(model, weights, (x,)), y)

        own = dict(model.named_parameters())
        for name, gradient in torch.func.grad(loss)({n: p.detach() for n, p in own.items()}).items():
            own[name].grad = gradient

    return model, by_func


def trained(kind, monitors):
    model, step = kind(network())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with normexp.watch(model, monitors=monitors, loss=F.cross_entropy) as w:
        for x, y in w.over(batches(3)):
            step(model, x, y)
            optimizer.step()
            optimizer.zero_grad()
    return [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in model.parameters()]


OF_DTENSORS = [(in_parts, Gradients), (split, Gradients), (split, InternalCovariateShift)]


@pytest.mark.parametrize("kind", [whole, in_parts, functional, split])
@pytest.mark.parametrize(
    "make", [Activations, Gradients, Smoothness, InternalCovariateShift, CheckNorms], ids=lambda m: m.__name__
)
def test_a_loop_in_which_no_other_pass_can_be_made_goes_on(process, kind, make):
    instrument = make() if make is CheckNorms else make(every_n_steps=1)
    alone = trained(kind, [])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        watched = trained(kind, [instrument])
    assert all(map(torch.equal, alone, watched))
    if make is CheckNorms:
        assert (instrument.result is None) == (kind is not split)  # and no error of a sound training
    elif (kind, make) in OF_DTENSORS:
        assert any("weights are DTensors, split over processes" in str(one.message) for one in said)
    elif kind is not split and (
        make is Smoothness or (make is InternalCovariateShift and kind is not functional)
    ):
        assert any("no other pass can be made; measure" in str(one.message) for one in said)


def test_lazy_layers_are_named_before_their_first_call():
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())

    def run():
        with normexp.watch(model, monitors=[Gradients(every_n_steps=1)]):
            model(torch.randn(5, 6)).sum().backward()
            torch.optim.SGD(model.parameters(), 0.1).step()

    with pytest.warns(UserWarning, match="Gradients: .* has lazy layers without a size; call the network"):
        run()
