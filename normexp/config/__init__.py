"""Configurations: their settings and checks, the identity of a run, and the code that computed it."""
