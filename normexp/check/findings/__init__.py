"""The kinds of findings. Each file is one theme; a new one is a function with `@finding`."""
