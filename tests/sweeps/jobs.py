"""Functions that a fresh process imports and runs, for the tests of the pool."""

import os
import signal
import sys
import time
from pathlib import Path


def speak(payload: dict) -> None:
    print(f"{payload['word']} {os.environ.get('SLOT', 'none')} {os.environ['OMP_NUM_THREADS']}", flush=True)
    sys.exit(payload.get("status", 0))


def wait_for_signal(payload: dict) -> None:
    """Ends with 143 on SIGTERM, as a run does that saved its checkpoint."""

    def stop(*_) -> None:
        Path(payload["mark"]).write_text("saved")
        sys.exit(143)

    signal.signal(signal.SIGTERM, stop)
    print("waiting", flush=True)
    time.sleep(60)
