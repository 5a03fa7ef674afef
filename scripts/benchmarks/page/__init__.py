"""docs/performance.md: the text, its tables and its targets."""
