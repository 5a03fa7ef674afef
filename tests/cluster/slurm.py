"""A Slurm cluster of this one machine, for tests: its daemons run in a folder of their own and end with the test.

    python tests/cluster/slurm.py FOLDER -- COMMAND ...     runs a command with the cluster's environment

Needs Debian's packages slurm-wlm and munge, and to be root (Slurm starts jobs as whoever asked for them).
"""

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue", "scancel")
FOLDERS = ("/usr/sbin", "/usr/local/sbin")  # of daemons, which not everybody has on the path

CONFIG = """
ClusterName=normexp
SlurmctldHost={host}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
SlurmctldPort={controller}
SlurmdPort={node}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
ReturnToService=2
SlurmdParameters=config_overrides
KillWait={kill_wait}
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP PriorityTier=1 GraceTime={grace}
PartitionName=urgent Nodes=ALL Default=NO State=UP PriorityTier=9 PreemptMode=OFF
"""


def missing() -> str | None:
    """What keeps a cluster from being started here, in words; None where nothing does."""
    absent = [name for name in PROGRAMS if program(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed: apt-get install slurm-wlm munge"
    return None if os.geteuid() == 0 else "only root can start the daemons"


def program(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *FOLDERS]))


@contextlib.contextmanager
def cluster(folder: Path, *, cpus: int = 2, kill_wait: int = 10, grace: int = 60) -> Iterator[dict[str, str]]:
    """Start the daemons; yields environment variables for commands that use the cluster.

    Jobs that are left when the context ends are cancelled.

    Args:
        cpus: of the one node, whatever the machine has.
        kill_wait: seconds between SIGTERM and SIGKILL at a job's time limit.
        grace: seconds that a job of partition main gets where one of partition urgent needs its place.
    """
    folder = folder.resolve()
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    config = folder / "slurm.conf"
    host = socket.gethostname()
    ports = {"controller": free_port(), "node": free_port()}
    config.write_text(
        CONFIG.format(folder=folder, host=host, cpus=cpus, kill_wait=kill_wait, grace=grace, **ports)
    )
    environment = {**os.environ, "SLURM_CONF": str(config)}
    munged = [
        program("munged"), "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
        f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed",
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        daemon(stack, munged, environment, folder)
        wait_for((folder / "munge.socket").exists, "munged", folder)
        daemon(stack, [program("slurmctld"), "-D", "-c"], environment, folder)
        daemon(stack, [program("slurmd"), "-D", "-c"], environment, folder)
        wait_for(lambda: node_state(environment) == "idle", "the node", folder)
        stack.callback(subprocess.run, ["scancel", "--user=root"], env=environment, capture_output=True)
        yield environment


def daemon(
    stack: contextlib.ExitStack, command: list[str], environment: dict[str, str], folder: Path
) -> None:
    log = stack.enter_context((folder / f"{Path(command[0]).name}.out").open("w"))
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    stack.callback(end, process)


def end(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def node_state(environment: dict[str, str]) -> str:
    command = ["sinfo", "--noheader", "--partition=main", "--format=%T"]
    return subprocess.run(command, env=environment, capture_output=True, text=True).stdout.strip()


def wait_for(condition, what: str, folder: Path, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            logs = "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("*.log")))
            raise RuntimeError(f"{what} did not come up within {seconds:g} s; the logs end with\n{logs}")
        time.sleep(0.1)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


if __name__ == "__main__":
    if why := missing():
        sys.exit(f"Error: {why}")
    place, *command = (argument for argument in sys.argv[1:] if argument != "--")
    with cluster(Path(place)) as variables:
        sys.exit(subprocess.run(command, env=variables).returncode)
