"""What a training process does with memory that it has freed."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys, torch
from normexp.training.memory import keep_freed_memory
torch.set_num_threads(1)
if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(3):
    blocks = [torch.ones(1_000_000) for _ in range(4)]  # 4 MB each
    del blocks
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    blocks = [torch.ones(1_000_000) for _ in range(4)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_freed_blocks_are_used_again_without_asking_the_kernel_for_pages():
    faults = {
        how: int(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True
            ).stdout
        )
        for how in ("keep", "default")
    }
    assert faults["keep"] < 100 < 10 * 977 < faults["default"]  # 977 pages of 4 KiB a block
