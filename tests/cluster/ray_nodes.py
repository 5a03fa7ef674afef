"""A Ray cluster of two nodes on the loopback of a network of its own, for tests: nobody outside can reach its ports.

Needs Linux's `unshare`, `nsenter` and `ip`, and to be root.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PORT = 6399
HEAD = ["--head", f"--port={PORT}", "--node-ip-address=127.0.0.1", "--include-dashboard=false"]
SECOND = [f"--address=127.0.0.1:{PORT}", "--node-ip-address=127.0.0.2"]
ALIVE = "import ray; ray.init(log_to_driver=False); print(sum(node['Alive'] for node in ray.nodes()))"


def missing() -> str | None:
    """What keeps a cluster from being started here, in words; None where nothing does."""
    if shutil.which("ray") is None:
        return 'ray is not installed: pip install "normexp[ray]"'
    absent = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed"
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True)
    return "no network namespace can be made here" if made.returncode else None


class Nodes:
    """Args:
    prefix: in front of a command that is to use the cluster.
    environment: for that command.
    """

    def __init__(self, folder: Path, prefix: list[str], environment: dict[str, str]):
        self.folder, self.prefix, self.environment = folder, prefix, environment
        self.sessions: list[int] = []
        self._processes: list[subprocess.Popen] = []

    def start(self, *options: str) -> int:
        """Start a node and wait until the cluster has it; returns its session."""
        common = ["--num-cpus=1", "--num-gpus=0", "--object-store-memory=100000000", "--block"]
        with (self.folder / f"node{len(self.sessions)}.log").open("w") as log:
            process = subprocess.Popen(
                [*self.prefix, "ray", "start", *options, *common],
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.sessions.append(process.pid)
        self._processes.append(process)
        until = time.monotonic() + 180
        while self.alive() < sum(map(bool, self.sessions)):
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError(f"node {len(self.sessions)} did not come up; see {self.folder}")
        return process.pid

    def alive(self) -> int:
        try:
            done = subprocess.run(
                [*self.prefix, sys.executable, "-c", ALIVE],
                env=self.environment, capture_output=True, text=True, timeout=60,
            )  # fmt: skip
        except subprocess.TimeoutExpired:  # it waits for a node that ended
            return 0
        return 0 if done.returncode else int(done.stdout.split()[-1])

    def kill(self, session: int) -> None:
        """All processes of a node at once, as when its machine loses power."""
        subprocess.run(["kill", "-KILL", *processes_of(session)], capture_output=True)
        place = self.sessions.index(session)
        self.sessions[place] = 0
        self._processes[place].wait()


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Nodes]:
    """Two nodes of one core; they end with the context."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep 86400"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n"
    prefix = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_ADDRESS": f"127.0.0.1:{PORT}"}
    nodes = Nodes(folder, prefix, environment)
    # Not in `folder`: the path of a socket there would be longer than the 107 bytes that Linux takes.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as short:
        try:
            nodes.start(*HEAD, f"--temp-dir={short}")
            nodes.start(*SECOND)
            yield nodes
        finally:
            for session in filter(None, nodes.sessions):
                nodes.kill(session)
            holder.kill()
            holder.communicate()


def processes_of(session: int) -> list[str]:
    """Its session's, and those that left it: Ray's workers have their own, below the raylet."""
    rows = [
        line.split()
        for line in subprocess.run(
            ["ps", "-eo", "pid=,ppid=,sid="], capture_output=True, text=True
        ).stdout.splitlines()
    ]
    own = {pid for pid, _, sid in rows if sid == str(session)} | {str(session)}
    while more := {pid for pid, parent, _ in rows if parent in own} - own:
        own |= more
    return sorted(own)
