"""Shared fixtures. Thread counts are set before torch is imported: two spinning processes on two cores are 20 times slower."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
