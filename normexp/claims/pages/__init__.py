"""Figures and pages of verdicts. Imports no torch."""
