"""Shared fixtures. Threads are limited before torch is imported: processes that spin on the same cores take 20 times
as long."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
