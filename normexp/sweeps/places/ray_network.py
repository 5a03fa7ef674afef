"""Check whether strangers could submit work to a Ray cluster, and so run any code on its machines."""

import contextlib
import fcntl
import os
import socket
import struct
import subprocess
import sys

GET_FLAGS, UP, LOOPBACK = 0x8913, 0x1, 0x8  # of Linux's ioctl
SECONDS = 60  # for an answer of a cluster
CONNECT = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level='ERROR')"


def check_network(address: str, *, trusted: bool) -> None:
    """Raise ValueError with one line for a cluster that takes work without a token and that others can reach."""
    if trusted or not reaches_others() or not takes_anybody(address):
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


def takes_anybody(address: str) -> bool:
    """Whether a process without a token gets in."""
    hidden = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {"RAY_AUTH_MODE": "disabled"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", CONNECT, address], env=environment, capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
