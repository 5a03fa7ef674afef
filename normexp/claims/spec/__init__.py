"""Claims: their files, their checks, and how to select them."""
