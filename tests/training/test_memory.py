"""What a training process does with memory that it has freed."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, torch
from normexp.training.lightning import keep_freed_memory
torch.set_num_threads(1)

def page_faults():
    for _ in range(3):
        blocks = [torch.ones(1_000_000) for _ in range(4)]  # 4 MB each
        del blocks
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        blocks = [torch.ones(1_000_000) for _ in range(4)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(page_faults())
assert keep_freed_memory()
print(page_faults())
"""


@pytest.mark.integration
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_freed_blocks_are_used_again_without_asking_the_kernel_for_pages():
    # The threshold of 128 KB that malloc starts with, made to stay: malloc moves it by what it has seen, with luck.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(128 * 1024)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    by_default, kept = map(int, done.stdout.split())
    pages = 20 * 4 * 976  # of 4 KiB, in all blocks
    assert by_default > 0.9 * pages
    assert kept < 0.1 * pages
