"""Finished runs on disk: written by one function, read back as one tidy table. Knows no torch and no Hydra."""

from normexp.runs.summary import STATUSES, SUMMARY, damaged, read_summary, write_summary
from normexp.runs.table import load, load_summaries

__all__ = ["STATUSES", "SUMMARY", "damaged", "load", "load_summaries", "read_summary", "write_summary"]
