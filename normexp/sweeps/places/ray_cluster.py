"""Tasks of a running Ray cluster: each run is a child of a worker, which owns its log. A cluster that strangers could
reach, and so run any code on its machines, is refused.
"""

import contextlib
import fcntl
import logging
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from normexp.config.errors import one_line
from normexp.format import pluralize
from normexp.sweeps.places.place import Ended, Event, Job, Options, Place, Started
from normexp.sweeps.places.this_machine import Share, run_share

LOOK_SECONDS = 2.0  # between two looks at the cluster's resources


class RayCluster(Place):
    """Uses a running cluster. When this process dies, Ray ends its tasks, and the runs save first."""

    def __init__(self, target: Callable[[Any], Any], options: Options, *, threads: int):
        super().__init__(target)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise ValueError('place=ray: needs ray; pip install "normexp[ray]"') from None
        if options.time_limit:
            raise ValueError("place=ray: a Ray cluster has no time limits; leave time_limit out")
        self._ray, self.options, self.threads = ray, options, threads
        address = options.address or os.environ.get("RAY_ADDRESS") or "auto"
        check_network(address, trusted=options.trust_network)
        # Workers import this checkout, and packages on this process's path.
        paths = os.pathsep.join(
            [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": {"PYTHONPATH": paths}},
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            why = one_line(ValueError(str(error)))[:160]
            raise ValueError(
                f"place=ray: no cluster at {address} ({why}); start one with `ray start`, or name another (address)"
            ) from None
        self._need = {"CPU": threads, "GPU": options.gpus or 0, "memory": options.memory_in() or 0}
        self._task = ray.remote(run_share).options(
            num_cpus=threads, num_gpus=self._need["GPU"], memory=self._need["memory"], max_retries=0
        )  # the engine tries again
        self._jobs: dict[Any, Job] = {}  # by Ray's reference to the result
        self._looked = 0.0
        if not self._slots():
            ray.shutdown()
            raise ValueError(
                f"place=ray: no node of the cluster at {address} has room for a run of {self._needs()}"
            )
        self.at_once = self._slots()

    def _needs(self) -> str:
        more = [f"{self.options.gpus} GPUs"] if self.options.gpus else []
        more += [f"{self.options.memory} of memory"] if self.options.memory else []
        return ", ".join([f"{self.threads} threads", *more])

    def _slots(self) -> int:
        """Number of runs that fit at a time. A task that fits no node would wait without a message."""
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        needs = {name: need for name, need in self._need.items() if need}
        total = sum(min(int(has.get(name, 0) / need) for name, need in needs.items()) for has in alive)
        return min(total, self.options.workers or total)

    @property
    def room(self) -> int:
        if time.monotonic() > self._looked + LOOK_SECONDS:  # nodes come and go
            self._looked, self.at_once = time.monotonic(), self._slots()
        return max(0, self.at_once - len(self._jobs))

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        for job in jobs:
            self._jobs[self._task.remote(Share(self.target, [job], self.threads))] = job
            self._started.append(Started(job))
        return []

    def _wait(self, seconds: float) -> list[Event]:
        if not self._jobs:
            time.sleep(seconds)
            return []
        ended, _ = self._ray.wait(list(self._jobs), num_returns=len(self._jobs), timeout=seconds)
        return list(map(self._end, ended))

    def _end(self, result: Any) -> Event:
        job, errors = self._jobs.pop(result), self._ray.exceptions
        try:
            return Ended(job, self._ray.get(result)[job.key])
        except errors.TaskCancelledError:
            return Ended(job, 143)
        except errors.RayTaskError as error:  # the worker could not start it
            job.log.parent.mkdir(parents=True, exist_ok=True)
            with job.log.open("a") as file:
                file.write(f"{error}\nError: {one_line(error.cause)}\n")
            return Ended(job, 1)
        except errors.RayError as error:
            return Ended(job, None, lost=f"its worker or node is gone ({type(error).__name__})")

    def stop(self, *, force: bool) -> None:
        for result in self._jobs:
            self._ray.cancel(result, force=force)

    def close(self) -> None:
        super().close()
        self._ray.shutdown()

    def __str__(self) -> str:
        return f"{self.at_once} at a time on the nodes of Ray, {pluralize(self.threads, 'thread')} each"


GET_FLAGS, UP, LOOPBACK = 0x8913, 0x1, 0x8  # of Linux's ioctl
SECONDS = 60  # for an answer of a cluster
CONNECT = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"


def check_network(address: str, *, trusted: bool) -> None:
    """Raise ValueError with one line for a cluster that takes work without a token and that others can reach."""
    if trusted or not reaches_others() or not accepts_anonymous(address):
        return
    raise ValueError(
        f"place=ray: the cluster at {address} takes work without a token from whoever reaches its ports; start it with "
        "RAY_AUTH_MODE=token, or add --trust-network if nobody else can reach it"
    )


def reaches_others() -> bool:
    """Whether this machine has a network interface besides its loopback. Ray listens on all interfaces."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(asking.fileno(), GET_FLAGS, struct.pack("256s", name.encode()[:15]))
                (flags,) = struct.unpack("16xH", answer[:18])
                if flags & UP and not flags & LOOPBACK:
                    return True
    return False


def accepts_anonymous(address: str) -> bool:
    """Whether a process without a token gets in."""
    hidden = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"RAY_AUTH_MODE": "disabled"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", CONNECT, address], env=environment, capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise ValueError(
            f"place=ray: the cluster at {address} did not say in {SECONDS} s whether it takes work without a token; "
            "try again when it is less busy, or add --trust-network if nobody else can reach it"
        ) from None
    return done.returncode == 0
