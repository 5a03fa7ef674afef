"""Configurations: their settings and checks, the identity of a run, and its process."""
