"""From a table of evidence to a word, with the numbers behind it. Imports no torch."""
