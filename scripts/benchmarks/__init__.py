"""The sub-commands of `python scripts/benchmark.py`, one file each: `main(arguments)` prints a table and returns its
rows. `measure/` measures time and memory, `baselines/` holds the code for comparison, `page/` writes
docs/performance.md."""
