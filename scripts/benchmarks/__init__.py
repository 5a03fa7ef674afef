"""The sub-commands of `python scripts/benchmark.py`, one file each: `main(arguments)` prints a table and returns its
rows. `measure/` times and weighs, `baselines/` holds what is compared with, `page/` writes docs/performance.md."""
