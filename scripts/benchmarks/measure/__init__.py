"""Measurements of time and memory, and the machine they are made on."""
