"""From the table of runs to figures, tables and one page."""
