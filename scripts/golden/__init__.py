"""Golden runs: small runs by which two versions of the code are compared bit for bit; `scripts/golden_runs.py`."""
