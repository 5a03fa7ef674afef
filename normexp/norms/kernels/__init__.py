"""Faster ways to compute what `normexp.norms.functional` defines; no formula is hidden here."""
