"""From a claim's yaml and a table of evidence to a verdict."""
