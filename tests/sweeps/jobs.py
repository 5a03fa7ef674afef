"""Functions that a fresh process imports and runs, for the tests of the pool."""

import os
import signal
import sys
import time
from pathlib import Path


def speak(payload: dict) -> None:
    print(f"{payload['word']} {os.environ.get('SLOT', 'none')} {os.environ['OMP_NUM_THREADS']}", flush=True)
    sys.exit(payload.get("status", 0))


def stay(payload: dict) -> bool:
    """Its process does another job unless the payload says otherwise."""
    print(f"{os.getpid()} {payload['word']}", flush=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as a library might leave it
    return payload["stays"]


def wait_for_signal(payload: dict) -> None:
    """Ends with 143 on SIGTERM, as a run does that saved its checkpoint."""

    def stop(*_) -> None:
        Path(payload["mark"]).write_text("saved")
        sys.exit(143)

    signal.signal(signal.SIGTERM, stop)
    print("waiting", flush=True)
    sleep()


def fail(payload: dict) -> None:
    raise ValueError(f"no {payload['word']}")


def die(payload: dict) -> None:
    """Kills itself so many times, counted in a folder."""
    folder = Path(payload["folder"])
    folder.mkdir(exist_ok=True)
    if len(list(folder.iterdir())) < payload["times"]:
        (folder / str(time.monotonic_ns())).touch()
        print("dying", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print("alive", flush=True)


def die_later(payload: dict) -> None:
    """Writes a newer checkpoint and kills itself, so many times."""
    path = Path(payload["folder"]) / "checkpoints" / "last.ckpt"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = int(path.read_text()) if path.exists() else 0
    if done < payload["times"]:
        path.write_text(str(done + 1))
        os.utime(path, (done, done))
        os.kill(os.getpid(), signal.SIGKILL)


def slow(payload: dict) -> None:
    """Is done when it was stopped so many times; saves a checkpoint whenever it is, or never."""
    path = Path(payload["folder"]) / "checkpoints" / "last.ckpt"
    path.parent.mkdir(parents=True, exist_ok=True)
    done = int(path.read_text()) if path.exists() else 0
    if done >= payload["times"]:
        return

    def stop(*_) -> None:
        if payload["saves"]:
            path.write_text(str(done + 1))
        sys.exit(143)

    signal.signal(signal.SIGTERM, stop)
    sleep()


def sleep() -> None:
    """A minute, in short pieces. Python answers a signal that arrives just before a sleep only after it."""
    for _ in range(1200):
        time.sleep(0.05)
