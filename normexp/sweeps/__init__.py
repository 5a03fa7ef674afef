"""Many runs: finished ones are skipped, the others trained at a place, each in its own process, and failures named."""
