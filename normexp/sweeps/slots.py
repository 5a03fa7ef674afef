"""Places for jobs: how many run at a time, with how many threads, on which GPU."""

import os
from collections.abc import Sequence
from typing import Any

from normexp.cores import cores


def slots(trainers: Sequence[dict[str, Any]], workers: int | None, runs_per_gpu: int) -> list[dict[str, str]]:
    """Environment of each place for a job; none for `workers=0`.

    On the CPU there are as many places as cores; runs on several devices take several cores each. With GPUs each place
    sees one GPU, and `runs_per_gpu` places share it. If some run asks for several GPUs, every run sees all, and runs go
    one at a time.
    """
    if workers == 0:
        return []
    on_cpu = all(trainer.get("accelerator") == "cpu" for trainer in trainers)
    gpus = [] if on_cpu else visible_gpus()
    devices = [trainer.get("devices", 1) for trainer in trainers]
    if not gpus:
        most = (
            max(n for n in devices if isinstance(n, int)) if any(isinstance(n, int) for n in devices) else 1
        )
        return [{}] * (workers or max(1, cores() // max(1, most)))
    if any(n != 1 for n in devices):
        return [{}] * (workers or 1)
    count = workers or len(gpus) * runs_per_gpu
    return [{"CUDA_VISIBLE_DEVICES": gpus[place % len(gpus)]} for place in range(count)]


def visible_gpus() -> list[str]:
    """Names for CUDA_VISIBLE_DEVICES."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name.strip()]
    import torch  # takes seconds

    return [str(index) for index in range(torch.cuda.device_count())]
