"""From evidence to a verdict, in one setting or over several. Imports no torch."""
