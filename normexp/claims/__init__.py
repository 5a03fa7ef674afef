"""From a claim's yaml and a table of evidence to a verdict.

- `spec`: the files of claims and banks, their checks, and how to select them
- `laws`: properties of norms, and of networks before training, as functions
- `evidence`: the values of a claim as a table, of laws, networks and runs, and the registry of protocols
- `judge`: from the table to a verdict, as values
- `pages`: figures and pages of verdicts
- `verify`: all of it, from selected claims to verdicts on disk; `train` trains what they lack
- `gather`: the evidence that exists; `conclude`: its verdict
- `record`: a verdict as `verdict.json`
- `words`, `numbers`, `units`: verdicts, the numbers behind them and each in its unit, in English
"""
