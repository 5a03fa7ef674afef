"""Golden runs: small runs that compare two versions of the code bit for bit; see `scripts/golden_runs.py`."""
