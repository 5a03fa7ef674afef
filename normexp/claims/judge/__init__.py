"""From evidence to a verdict: `verdict.judge` is the one way in, for one setting and for several. Imports no torch."""
