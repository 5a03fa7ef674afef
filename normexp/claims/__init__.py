"""How a table of evidence becomes a verdict. Knows numbers and yaml, not torch, and not where numbers come from."""
