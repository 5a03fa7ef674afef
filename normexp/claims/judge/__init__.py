"""From a table of evidence to a word, with the numbers that led to it. Knows no torch."""
