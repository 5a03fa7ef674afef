"""The command line: words in, calls of the API out. `main` finds a command, `command` makes one of a function."""
