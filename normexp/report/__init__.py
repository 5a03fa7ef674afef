"""From the table of runs to something people look at: figures, tables and one page."""
