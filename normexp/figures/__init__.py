"""The gallery: figures by name. Each is a function that gives its numbers and one sentence about them.

A new figure is one function in a file `of_*.py`, with the decorator `figure` and a text in `figures.yaml`.
`normexp figure --help` lists all.
"""
