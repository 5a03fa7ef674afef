"""Many runs: checked together before the first one starts, each in its own process, watched until the last ends."""
