"""The command line: words in, calls of the API out. Each command is one file with a function `main`."""
