"""Many runs: checked together before the first one starts, run in processes of their own, watched until the last."""
