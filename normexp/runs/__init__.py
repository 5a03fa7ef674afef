"""Finished runs on disk: one function writes them, one tidy table reads them. Imports neither torch nor Hydra."""

from normexp.runs.read import TestExamples, load_test_examples, write_test_examples
from normexp.runs.summary import SUMMARY, damaged, failed, finished_summary, read_summary, write_summary
from normexp.runs.table import load, load_summaries

__all__ = [
    "SUMMARY", "TestExamples", "damaged", "failed", "finished_summary", "load", "load_summaries", "load_test_examples",
    "read_summary", "write_summary", "write_test_examples",
]  # fmt: skip
