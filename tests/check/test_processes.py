"""Two processes of DistributedDataParallel, connected by gloo. A check of one of them waits for nobody."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from pytorch_lightning.strategies import DDPStrategy
from small_networks import Lit, fit
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from normexp.check import CheckNorms
from normexp.check.run import check


def fitted(broadcast: bool) -> dict:
    """What CheckNorms finds before the first batch, and how far the running means are apart after some."""
    torch.manual_seed(0)
    module = Lit(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)))
    callback = CheckNorms()
    rank = int(os.environ["RANK"])
    batches = [torch.randn(8, 4) + 5 * rank for _ in range(4)]
    strategy = DDPStrategy(process_group_backend="gloo", broadcast_buffers=broadcast)
    options = {"max_steps": 3, "devices": 2, "use_distributed_sampler": False, "strategy": strategy}
    fit(module, [callback], torch.utils.data.DataLoader(batches, batch_size=None), None, **options)
    mean = module.net[1].running_mean
    both = [torch.empty_like(mean) for _ in range(2)]
    dist.all_gather(both, mean)
    if rank == 0:  # the other process is not asked
        wrapped = DistributedDataParallel.__new__(DistributedDataParallel)
        nn.Module.__init__(wrapped)
        wrapped.module, wrapped.broadcast_buffers = module.net, broadcast
        assert ("buffers_apart" in check(wrapped, torch.randn(8, 4))) is not broadcast
    return {"apart": float((both[0] - both[1]).norm()), "said": "buffers_apart" in callback.result}


if __name__ == "__main__":
    print(json.dumps([fitted(broadcast) for broadcast in (True, False)]))


@pytest.mark.integration
def test_buffers_that_are_not_broadcast_are_said_where_they_move_apart():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    ends = []
    for rank in ("0", "1"):
        env = os.environ | {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a"}
        env |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "GROUP_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
        call = [sys.executable, "-W", "ignore", __file__]
        ends.append(subprocess.Popen(call, env=env, stdout=subprocess.PIPE, text=True))
    for process in ends:
        shared, alone = json.loads(process.communicate(timeout=120)[0].splitlines()[-1])
        assert (shared["said"], alone["said"]) == (False, True)
        assert shared["apart"] < alone["apart"] / 2  # of the last batch, which nobody has sent yet
